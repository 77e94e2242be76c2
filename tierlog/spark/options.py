"""The options of a read: those of Spark's Kafka source, by the same names, and a few of our own.

Pure. Names are compared without regard to case, as Spark does; `dict()` of Spark's own option map
has them in small letters, so nothing here looks one up by another spelling. Defaults and precedence
are Kafka's: a time goes before times by partition, these before offsets. What is unknown or makes
no sense is refused: an option that is silently left out makes a bounded read an unbounded one.

Without `kafka.bootstrap.servers` the end of the log is the end of the bucket.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import TypeAlias

from tierlog.config import Address, InvalidConfig, parse_address, store_folder
from tierlog.config.store import check_endpoint
from tierlog.spark import bounds, kafkasettings
from tierlog.spark.bounds import Bound, Edge, Offsets, PartitionName, Times
from tierlog.spark.errors import OptionRefused

STORE_CONF = "spark.tierlog.store"


class Mode(Enum):
    BATCH = "batch"
    STREAM = "streaming"


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions."""

    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose whole names match."""

    pattern: str


Chosen: TypeAlias = Assign | Subscribe | SubscribePattern

CHOICES = ("assign", "subscribe", "subscribePattern")

OURS = ("store", "clusterId", "includeLineage", "pushFilters", "s3.endpoint", "s3.region")
"""Not of Kafka's source."""

OF_TRIGGERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""Without a meaning in a batch."""

OBEYED = (
    *CHOICES,
    *OURS,
    "kafka.bootstrap.servers",
    kafkasettings.PROTOCOL,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    *OF_TRIGGERS,
)

IGNORED = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    *kafkasettings.TUNING,
)
"""Taken so that a query needs no change, and without a meaning here: there is no consumer to tune,
and no group."""

REFUSED = {
    "kafka.auto.offset.reset": "say where to begin with startingOffsets",
    "kafka.key.deserializer": "keys are bytes; decode them with DataFrame functions",
    "kafka.value.deserializer": "values are bytes; decode them with DataFrame functions",
    "kafka.enable.auto.commit": "nothing is committed",
    "kafka.interceptor.classes": "there is no consumer to intercept",
    "path": "load() takes no path: name topics with subscribe, and the bucket with store",
}
"""With what to do instead. The first five are refused by Kafka's source, too."""

_CANONICAL = {name.lower(): name for name in (*OBEYED, *IGNORED, *REFUSED)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    store: str
    chosen: Chosen
    start: Bound
    end: Bound = Edge.LATEST
    cluster_id: str | None = None
    brokers: tuple[Address, ...] = ()
    """Of whom the hot tail is asked; none: the bucket is all there is."""
    late_start_is_latest: bool = False
    """What a time behind the last record means for a start: the end, or an error."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    include_lineage: bool = False
    push_filters: bool = False
    partitions_min: int | None = None
    partition_records_max: int | None = None
    trigger_offsets_max: int | None = None
    trigger_offsets_min: int | None = None
    """A stream waits for so many, unless it has waited for the time below."""
    trigger_delay_max_ms: int = 15 * 60 * 1000
    """As in Kafka's source."""
    s3_endpoint: str = ""
    s3_region: str = ""
    ignored: tuple[str, ...] = field(default=(), compare=False)
    """Options that were given and mean nothing here."""

    @property
    def topics(self) -> frozenset[str]:
        """Those that are named; none by a pattern."""
        if isinstance(self.chosen, SubscribePattern):
            return frozenset()
        if isinstance(self.chosen, Subscribe):
            return frozenset(self.chosen.topics)
        return frozenset(self.chosen.partitions)


def parse_options(
    given: Mapping[str, str], *, mode: Mode, default_store: str | None = None
) -> ReadOptions:
    """Raises `OptionRefused`."""
    known = canonical(given)
    store = known.get("store", default_store)
    if not store:
        raise OptionRefused(
            "store", f"no store is named: give the option store, or set {STORE_CONF}"
        )
    endpoint = known.get("s3.endpoint", "")
    _check_place(store, endpoint)
    _check_protocol(known)
    return ReadOptions(
        store=store,
        chosen=_chosen(known),
        start=_start(known, mode),
        end=_end(known, mode),
        cluster_id=known.get("clusterId"),
        brokers=_brokers(known),
        late_start_is_latest=_strategy(known),
        fail_on_data_loss=_flag(known, "failOnDataLoss", default=True),
        include_headers=_flag(known, "includeHeaders"),
        include_lineage=_flag(known, "includeLineage"),
        push_filters=_flag(known, "pushFilters"),
        partitions_min=_count(known, "minPartitions"),
        partition_records_max=_count(known, "maxRecordsPerPartition"),
        trigger_offsets_max=_count(known, "maxOffsetsPerTrigger"),
        trigger_offsets_min=_least(known),
        trigger_delay_max_ms=bounds.parse_duration(*_delay(known)),
        s3_endpoint=endpoint,
        s3_region=known.get("s3.region", ""),
        ignored=tuple(sorted(_meaningless(known, mode))),
    )


def canonical(given: Mapping[str, str]) -> dict[str, str]:
    """By the names as the documentation spells them."""
    found: dict[str, str] = {}
    for spelt, text in given.items():
        name = _CANONICAL.get(spelt.lower())
        if kafkasettings.needs_security(spelt):
            raise OptionRefused(spelt, f"{spelt} is not supported: {kafkasettings.NO_SECURITY}")
        if name is None:
            raise _unknown(spelt)
        if name in REFUSED:
            raise OptionRefused(name, f"{name} is not supported: {REFUSED[name]}")
        if not isinstance(text, str):
            raise OptionRefused(name, f"{name} must be text, not {type(text).__name__}")
        if found.get(name, text) != text:
            raise OptionRefused(name, f"{name} is given twice: '{found[name]}' and '{text}'")
        found[name] = text
    return found


def _unknown(spelt: str) -> OptionRefused:
    close = get_close_matches(spelt.lower(), _CANONICAL, n=1)
    hint = f"did you mean {_CANONICAL[close[0]]}?" if close else "docs/spark.md lists them all"
    return OptionRefused(spelt, f"there is no option {spelt}; {hint}")


def _check_place(store: str, endpoint: str) -> None:
    try:
        store_folder(store)
        check_endpoint(endpoint)
    except InvalidConfig as error:
        raise OptionRefused("store", str(error)) from None


def _check_protocol(known: Mapping[str, str]) -> None:
    name = kafkasettings.PROTOCOL
    if known.get(name, kafkasettings.PLAINTEXT).strip().upper() != kafkasettings.PLAINTEXT:
        raise OptionRefused(name, f"{name} cannot be '{known[name]}': {kafkasettings.NO_SECURITY}")


def _chosen(known: Mapping[str, str]) -> Chosen:
    given = [name for name in CHOICES if name in known]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        raise OptionRefused(
            CHOICES[1], f"exactly one of {', '.join(CHOICES)} must be given, not {said}"
        )
    name, text = given[0], known[given[0]]
    if name == "assign":
        return Assign(bounds.parse_partitions(name, text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
        if not topics:
            raise OptionRefused(name, f"subscribe is '{text}'; it names no topic")
        return Subscribe(topics)
    return _pattern(text)


def _pattern(text: str) -> SubscribePattern:
    if not text.strip():
        raise OptionRefused("subscribePattern", "subscribePattern is empty")
    try:
        re.compile(text)
    except re.error as error:
        raise OptionRefused(
            "subscribePattern", f"subscribePattern is '{text}'; it is no pattern: {error}"
        ) from None
    return SubscribePattern(text)


def _start(known: Mapping[str, str], mode: Mode) -> Bound:
    if "startingTimestamp" in known:
        return bounds.parse_time("startingTimestamp", known["startingTimestamp"])
    if "startingOffsetsByTimestamp" in known:
        return _times(known, "startingOffsetsByTimestamp")
    text = known.get("startingOffsets", "earliest" if mode is Mode.BATCH else "latest").strip()
    if text.lower() == Edge.EARLIEST.value:
        return Edge.EARLIEST
    if text.lower() == Edge.LATEST.value:
        if mode is Mode.BATCH:
            raise OptionRefused(
                "startingOffsets", "startingOffsets cannot be latest in a batch: nothing follows"
            )
        return Edge.LATEST
    found = _offsets(known, "startingOffsets", text)
    if mode is Mode.BATCH and (late := _first(found, bounds.LATEST)):
        raise OptionRefused(
            "startingOffsets", f"startingOffsets of {late} cannot be latest (-1) in a batch"
        )
    return found


ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")


def _end(known: Mapping[str, str], mode: Mode) -> Bound:
    if mode is Mode.STREAM:
        for name in ENDS:
            if name in known:
                raise OptionRefused(name, f"{name} makes no sense in a stream, which has no end")
        return Edge.LATEST
    if "endingTimestamp" in known:
        return bounds.parse_time("endingTimestamp", known["endingTimestamp"])
    if "endingOffsetsByTimestamp" in known:
        return _times(known, "endingOffsetsByTimestamp")
    text = known.get("endingOffsets", "latest").strip()
    if text.lower() == Edge.LATEST.value:
        return Edge.LATEST
    if text.lower() == Edge.EARLIEST.value:
        raise OptionRefused("endingOffsets", "endingOffsets cannot be earliest")
    found = _offsets(known, "endingOffsets", text)
    if early := _first(found, bounds.EARLIEST):
        raise OptionRefused("endingOffsets", f"endingOffsets of {early} cannot be earliest (-2)")
    return found


def _offsets(known: Mapping[str, str], name: str, text: str) -> Offsets:
    if not text.startswith("{"):
        words = "latest" if name.startswith("ending") else "earliest"
        raise OptionRefused(
            name, f'{name} is \'{text}\'; write {words}, or JSON as {{"orders": {{"0": 23}}}}'
        )
    found = bounds.parse_offsets(name, text)
    _check_names(known, name, found.by)
    return found


def _times(known: Mapping[str, str], name: str) -> Times:
    found = bounds.parse_times(name, known[name])
    _check_names(known, name, found.by)
    return found


def _check_names(known: Mapping[str, str], name: str, by: Mapping[PartitionName, int]) -> None:
    """Against `assign`, which is all that is known before anybody has looked."""
    if "assign" not in known:
        return
    assigned = {
        PartitionName(topic, each)
        for topic, partitions in bounds.parse_partitions("assign", known["assign"]).items()
        for each in partitions
    }
    if by.keys() != assigned:
        odd = sorted(map(str, by.keys() ^ assigned))
        raise OptionRefused(
            name, f"{name} must name the partitions that are read; the two differ in {odd[0]}"
        )


def _first(found: Offsets, number: int) -> PartitionName | None:
    return next((name for name, offset in sorted(found.by.items()) if offset == number), None)


def _brokers(known: Mapping[str, str]) -> tuple[Address, ...]:
    name = "kafka.bootstrap.servers"
    texts = [one.strip() for one in known.get(name, "").split(",") if one.strip()]
    if name in known and not texts:
        raise OptionRefused(name, f"{name} names no broker; leave it out to read the bucket alone")
    try:
        return tuple(parse_address(one, name=name, port_min=1) for one in texts)
    except InvalidConfig as error:
        raise OptionRefused(name, str(error)) from None


def _strategy(known: Mapping[str, str]) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = known.get(name, "error").strip().lower()
    if text not in ("error", "latest"):
        raise OptionRefused(name, f"{name} is '{known[name]}'; it must be error or latest")
    return text == "latest"


def _flag(known: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return bounds.parse_flag(name, known[name]) if name in known else default


def _count(known: Mapping[str, str], name: str) -> int | None:
    return (
        bounds.parse_number(name, known[name], least=1, what="a count") if name in known else None
    )


def _least(known: Mapping[str, str]) -> int | None:
    name, other = "minOffsetsPerTrigger", "maxOffsetsPerTrigger"
    least, most = _count(known, name), _count(known, other)
    if least is not None and most is not None and least > most:
        raise OptionRefused(name, f"{name} is {least}, more than {other}, which is {most}")
    return least


def _delay(known: Mapping[str, str]) -> tuple[str, str]:
    return "maxTriggerDelay", known.get("maxTriggerDelay", "15m")


def _meaningless(known: Mapping[str, str], mode: Mode) -> list[str]:
    found = [name for name in known if name in IGNORED]
    if mode is Mode.BATCH:
        found += (name for name in OF_TRIGGERS if name in known)
    return found
