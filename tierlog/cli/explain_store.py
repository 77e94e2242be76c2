"""`tierlog explain --store`: the same answers from the bucket alone.

Settings are the topic's overrides in STATE over the defaults of this tierlog: what a node was told
with `--set` the bucket does not know.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tierlog.cli.bucket import with_bucket
from tierlog.cli.explain import ExplainOptions, Printer
from tierlog.cli.failure import Refused
from tierlog.cold.bucketview import BucketView, NotThere, Place
from tierlog.cold.explanation import ROWS_MAX, partition_value, topic_value
from tierlog.cold.factfinding import ColdRows, of_bucket, rules_of
from tierlog.config import topic_config
from tierlog.env import local_env
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.cold.segmentfacts import Rules
    from tierlog.config import NodeSettings


def run_offline(
    options: ExplainOptions, settings: "NodeSettings", cluster_id: str | None = None
) -> None:
    printer = Printer(options)

    async def work(view: BucketView) -> None:
        async for answer in answers(view, options, settings, now_ms=local_env().clock.now_ms()):
            printer.show(answer)

    with_bucket(settings, cluster_id, work)


async def answers(
    view: BucketView, options: ExplainOptions, settings: "NodeSettings", *, now_ms: int
) -> AsyncIterator[dict[str, Any]]:
    place = await view.find(options.topic)
    if place.topic_id is None or place.cluster_id is None or place.partition is not None:
        raise Refused(f"{options.topic} is no topic; `tierlog store ls` shows which there are")
    topic = (await view.state(place.cluster_id)).topics.get(place.topic_id)
    if topic is None:
        raise Refused(f"{options.topic} was deleted; its objects are being removed")
    if (options.partition or 0) >= topic.partitions:
        raise Refused(f"{options.topic} has partitions 0 to {topic.partitions - 1}")
    config = topic_config(topic.configs, settings)
    rules = rules_of(config, grace_ms=settings.tierlog_garbage_grace_ms)
    about = topic_value(
        name=topic.name, topic_id=place.topic_id, now_ms=now_ms, rules=rules, store=None
    )
    wanted = range(topic.partitions) if options.partition is None else [options.partition]
    for index in wanted:
        after = 0 if options.every else None
        while True:
            found = await _partition(view, place, index, rules, now_ms=now_ms, after=after)
            yield {**about, "partition_count": topic.partitions, "partitions": [found]}
            after = found["next_after"]
            if after is None:
                break


async def _partition(
    view: BucketView, topic: Place, index: int, rules: "Rules", *, now_ms: int, after: int | None
) -> dict[str, Any]:
    place = Place(
        cluster_id=topic.cluster_id, topic_id=topic.topic_id, topic=topic.topic, partition=index
    )
    try:
        head = await view.head(place)
    except NotThere as nothing:
        return _empty(index, str(nothing))
    rows = await ColdRows(
        head,
        partial(view.page, place),
        log_start=head.log_start,
        singles_from=None if after is None else Offset(after),
        singles_max=ROWS_MAX + 1,
    ).find()
    facts = of_bucket(head, rows.rows, rules=rules, now_ms=now_ms)
    return partition_value(index, facts, head, problems=rows.problems, after=after)


def _empty(index: int, why: str) -> dict[str, Any]:
    nothing = dict.fromkeys(
        (
            "log_start",
            "local_start",
            "uploaded_end",
            "high_watermark",
            "cold_bytes",
            "retained_bytes",
        ),
        0,
    )
    return {
        "partition": index,
        **nothing,
        "cold_segments": 0,
        "local_bytes": 0,
        "local_segments": 0,
        "published_ms": -1,
        "bytes_per_s": None,
        "error": None,
        "fence": None,
        "holds": [],
        "garbage_pages": {"count": 0, "not_before_ms": -1},
        "problems": [why],
        "rows": [],
        "next_after": None,
    }
