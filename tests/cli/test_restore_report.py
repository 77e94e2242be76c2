"""What `tierlog restore` prints: what is back, what is not, and the command to go on with."""

from dataclasses import replace

import pytest

from tierlog.cli.restore import RestoreOptions, closing, show
from tierlog.cold.head import Incarnation
from tierlog.cold.regrouping import GroupReport, SetBack
from tierlog.cold.report import Outcome, PartitionReport, Report
from tierlog.types import LeaderEpoch, Offset

OPTIONS = RestoreOptions(
    store="s3://tierlog/a b", data="new-data", sets=("s3.endpoint=http://127.0.0.1:9000",)
)


def partition(topic: str, outcome: Outcome = Outcome.RESTORED, *problems: str) -> PartitionReport:
    return PartitionReport(
        topic=topic,
        topic_id="a" * 32,
        partition=0,
        outcome=outcome,
        leader_epoch=LeaderEpoch(6),
        log_start=Offset(0),
        next_offset=Offset(1_234_567),
        records=1_234_567,
        bytes=98_765_432_100,
        published_ms=1_700_000_000_000,
        problems=problems,
    )


def report(*partitions: PartitionReport, deleted: tuple[str, ...] = ()) -> Report:
    return Report(
        cluster_id="hOWmXBFzRmurdG7uGsCO2g",
        after=Incarnation(1, "one"),
        incarnation=Incarnation(2, "two"),
        partitions=partitions,
        deleted=deleted,
    )


def test_a_table_fits_into_80_columns_and_says_once_what_may_be_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(
        report(
            partition("payments-inward"),
            partition("latest", Outcome.UNTIERED),
            partition("broken", Outcome.LOST, "HEAD cannot be used"),
            deleted=("old",),
        ),
        OPTIONS,
    )
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split() == [
        *("topic", "partition", "from", "to", "records", "bytes", "published")
    ]
    assert lines[2].split()[:5] == ["payments-inward", "0", "0", "1234567", "1234567"]
    assert lines[2].split()[-1].count(":") == 2
    assert lines[3].endswith("not tiered")
    assert lines[4].split()[2:4] == ["?", "?"]
    assert sum("is lost" in line for line in lines) == 1
    assert lines[-2:] == [
        "old was being deleted: it does not come back",
        "broken-0: HEAD cannot be used",
    ]


def test_a_topic_that_is_not_tiered_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    state = [replace(partition("state", Outcome.UNTIERED), partition=index) for index in range(50)]
    show(report(*state, partition("orders")), OPTIONS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["state", "0-49"], ["orders", "0"]]


def test_the_last_line_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--data new-data --store 's3://tierlog/a b' --set s3.endpoint=http://127.0.0.1:9000"
    show(report(partition("a")), OPTIONS)
    assert capsys.readouterr().err.splitlines() == ["ready:", f"  tierlog serve {words}"]
    show(report(partition("a", Outcome.LOST, "gone")), OPTIONS)
    assert capsys.readouterr().err.splitlines() == [
        "not complete: repair what is named above and run the restore again:",
        f"  tierlog restore {words} --cluster-id hOWmXBFzRmurdG7uGsCO2g",
    ]


def test_problems_are_counted_where_a_node_may_start_all_the_same() -> None:
    one, two = partition("a", Outcome.RESTORED, "x"), partition("b", Outcome.REBUILT, "y", "z")
    assert closing(report(one)) == "ready, but for the problem named above:"
    assert closing(report(one, two)) == "ready, but for the 3 problems named above:"


def test_a_cluster_without_topics_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    show(report(), OPTIONS)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_groups_are_told_with_every_offset_that_was_set_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    back = SetBack("orders", 0, Offset(120), Offset(100))
    groups = (
        GroupReport(group="billing", offsets=3, set_back=(back,)),
        GroupReport(group="audit", offsets=1, gone=2),
    )
    show(replace(report(partition("orders")), groups=groups), OPTIONS)
    lines = capsys.readouterr().out.splitlines()
    assert ["billing", "3", "1", "0"] in [line.split() for line in lines]
    told = "\n".join(lines)
    assert "billing: orders-0 set back from 120 to 100" in told
    assert "20 records it had read are lost" in told
    assert "audit: 2 offsets were of topics that are deleted" in told


def test_offsets_that_cannot_be_read_are_a_problem_of_the_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = replace(report(partition("orders")), problems=("the offsets do not come back: torn",))
    assert found.is_complete
    assert not found.is_sound
    show(found, OPTIONS)
    assert "the offsets do not come back: torn" in capsys.readouterr().out
    assert "the problem named above" in closing(found)
