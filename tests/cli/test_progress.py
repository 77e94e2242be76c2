"""The progress line: what it says, when it shows, and that it cleans up."""

import io

import pytest

from tierlog.cli.progress import WIPE, Done, Progress, line_of, show_bytes, show_seconds, summary_of


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_says_bytes_share_rate_and_what_is_left() -> None:
    done = Done(records=10_000, size_bytes=12_300_000, share=0.25, seconds=10.0)
    assert line_of(done) == "12.3 MB  25 %  1.2 MB/s  0:30 left  10,000 records"


def test_without_a_known_end_the_line_says_neither_share_nor_time() -> None:
    done = Done(records=1, size_bytes=5, share=None, seconds=1.0)
    assert line_of(done) == "5 B  5 B/s  1 record"


def test_what_counts_no_bytes_has_a_label_instead() -> None:
    done = Done(records=500, size_bytes=0, share=0.5, seconds=2.0)
    assert line_of(done, "looking") == "looking  50 %  0:02 left  500 records"


def test_nothing_done_yet_is_no_division_by_zero() -> None:
    assert line_of(Done(records=0, size_bytes=0, share=0.0, seconds=0.0)) == "0 B  0 %  0 records"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_940, "99.9 kB"), (999_600, "1.0 MB")],
)
def test_bytes_are_shown_in_three_digits(count: int, text: str) -> None:
    assert show_bytes(count) == text


def test_hours_show_only_when_there_are_some() -> None:
    assert [show_seconds(each) for each in (0, 59.6, 61, 3661)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:01:01",
    ]


def test_a_summary_names_a_rate_only_where_it_means_something() -> None:
    done = Done(records=1, size_bytes=10, share=None, seconds=0.01)
    assert summary_of(done) == "1 record (10 B) in 0.0 s"
    done = Done(records=1200, size_bytes=2_000_000, share=None, seconds=2.0)
    assert summary_of(done) == "1,200 records (2.0 MB) in 2.0 s, 1.0 MB/s"


def test_a_short_command_draws_nothing() -> None:
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, clock)
    clock.seconds += 0.4
    progress.draw(0.5)
    progress.wipe()
    assert stream.getvalue() == ""


def test_a_long_command_draws_not_too_often_and_wipes_its_line() -> None:
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, clock)
    clock.seconds += 0.5
    progress.draw(0.5)
    progress.draw(0.6)
    clock.seconds += 0.2
    progress.draw(0.7)
    progress.wipe()
    progress.wipe()
    drawn = stream.getvalue().split(WIPE)
    assert [line[:11] for line in drawn] == ["", "0 B  50 %  ", "0 B  70 %  ", ""]


def test_where_no_terminal_is_nothing_is_drawn() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock)
    clock.seconds += 10
    progress.draw(0.5)
    progress.wipe()
    assert stream.getvalue() == ""
