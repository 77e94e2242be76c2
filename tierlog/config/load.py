"""The settings of a node from everything that a person wrote.

Precedence: the command line (`--set` and the options that stand for settings), then `TIERLOG_*`
environment variables, then the file, then the default. Pure: the caller reads file and environment.
Nothing is ignored: an unknown name is refused with the nearest known one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tierlog.config.definition import Definition
from tierlog.config.errors import InvalidConfig
from tierlog.config.node import NodeSettings
from tierlog.config.rules import NODE, TOPIC, nearest

HOUR_MS = 3_600_000

COARSER: Mapping[str, tuple[str, int]] = {
    "log.roll.hours": ("log.roll.ms", HOUR_MS),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", HOUR_MS),
    "log.retention.hours": ("log.retention.ms", HOUR_MS),
    "log.retention.minutes": ("log.retention.ms", 60_000),
}
"""Kafka's other spellings of a time, and their milliseconds. Of two in one place the finer wins;
between places the place decides, so that `--set log.retention.hours=1` beats a file in ms."""

ELSEWHERE: Mapping[str, str] = {
    "advertised.listeners": "advertise",
    "bind.address": "listen",
    "broker.id": "node.id",
    "listeners": "listen",
    "log.dir": "data",
    "log.dirs": "data",
    "port": "listen",
}
"""Names of Kafka whose thing has another shape here."""

PREFIX = "TIERLOG_"

NOT_SETTINGS = re.compile(r"TIERLOG_(BOOTSTRAP|CONFIG|CACHE|KAFKA_CACHE|SERVICE_.*|PORT|PORT_.*)")
"""Variables that are not settings: two of the command line's own, where tests and benchmarks keep
what they download, and those that Kubernetes puts into every container beside a service that is
called tierlog."""


@dataclass(frozen=True, slots=True)
class Given:
    """One value that a person wrote, and where."""

    name: str
    text: str
    where: str


def load_node_settings(
    *,
    options: Mapping[str, str] | None = None,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    file: Mapping[str, Any] | None = None,
) -> NodeSettings:
    """Raises `InvalidConfig` with a sentence for the person who wrote it."""
    places = [
        [Given(*pair, f"--{pair[0].replace('.', '-')}") for pair in (options or {}).items()],
        list(_from_sets(sets)),
        list(_from_environment(environ or {})),
        list(_from_file(file or {})),
    ]
    values: dict[str, Any] = {}
    for place in reversed(places):  # The strongest place is laid on last.
        values |= _parsed(place)
    settings = NodeSettings(**values)
    for name in ("listen", "http"):
        _require_consent(settings, name)
    return settings


def _from_sets(sets: Sequence[str]) -> Iterator[Given]:
    for each in sets:
        name, equals, text = each.partition("=")
        if not equals:
            raise InvalidConfig(name, f"--set {each} is not of the form key=value")
        yield Given(name.strip(), text, "--set")


def _from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and not NOT_SETTINGS.fullmatch(variable):
            name = variable.removeprefix(PREFIX).lower().replace("_", ".")
            # TIERLOG_UPLOAD_X is tierlog.upload.x: nobody wants to say the word twice.
            ours = f"tierlog.{name}"
            yield Given(ours if ours in NODE else name, text, f"the environment, {variable}")


def _from_file(table: Mapping[str, Any], path: str = "") -> Iterator[Given]:
    """Tables and dotted keys mean the same: `[log.segment] bytes = 1` is `log.segment.bytes`."""
    for key, value in table.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from _from_file(value, f"{name}.")
        else:
            yield Given(name, _text_of(value), "the configuration file")


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value)


def _parsed(place: Sequence[Given]) -> dict[str, Any]:
    """Typed values of one place, by attribute."""
    values: dict[str, Any] = {}
    # The coarsest spellings first, so that finer ones are laid over them.
    for given in sorted(place, key=lambda each: -COARSER.get(each.name, ("", 0))[1]):
        try:
            attribute, value = _read(given)
        except InvalidConfig as error:
            raise error.found_in(given.where) from None
        values[attribute] = value
    return values


def _read(given: Given) -> tuple[str, Any]:
    if given.name in COARSER:
        name, factor = COARSER[given.name]
        return NODE[name].attribute, _coarse(given, NODE[name], factor)
    definition = _definition(given.name)
    return definition.attribute, definition.parse(given.text)


def _coarse(given: Given, definition: Definition, factor: int) -> int:
    text = given.text.strip()
    if not re.fullmatch(r"-1|[0-9]{1,12}", text):
        raise InvalidConfig(given.name, f"{given.name} is '{text}'; it must be a whole number")
    value = int(text) if text == "-1" else int(text) * factor
    definition.check(value)
    return value


def _definition(name: str) -> Definition:
    if name in NODE:
        return NODE[name]
    if name in TOPIC:
        raise InvalidConfig(name, _topic_hint(TOPIC[name]))
    if name in ELSEWHERE:
        raise InvalidConfig(name, f"unknown setting {name}; here it is {ELSEWHERE[name]}")
    raise InvalidConfig(name, f"unknown setting {name}{nearest(name, {**COARSER, **NODE})}")


def _topic_hint(topic: Definition) -> str:
    if topic.broker is None:
        return f"{topic.name} is a topic setting; set it on a topic"
    return f"{topic.name} is a topic setting; the node's default for it is {topic.broker}"


def _require_consent(settings: NodeSettings, name: str) -> None:
    """Until there is authentication, who can connect can do everything."""
    address = settings.listen_address if name == "listen" else settings.http_address
    if address is None or address.is_loopback or settings.listener_insecure:
        return
    raise InvalidConfig(
        name,
        f"{name} is {address}, which other machines can reach, and nobody is asked who they are; "
        "use 127.0.0.1, or say --set listener.insecure=true if the network is trusted",
    )
