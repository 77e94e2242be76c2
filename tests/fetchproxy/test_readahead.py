from random import Random

from tests.fetchproxy.support import make_batch, make_segment
from tierlog.fetchproxy.clients import Account, Reader
from tierlog.fetchproxy.flights import Allowance
from tierlog.fetchproxy.readahead import STREAMS_MAX, Streams, Window
from tierlog.types import Offset, Position


def window(*, now_s: float = 0.0) -> Window:
    return Window(chunk_bytes=8, bytes_max=40, stall_s=5.0, now_s=now_s)


def test_nothing_is_read_ahead_for_who_came_once() -> None:
    one = window()
    one.answered(1000, 1.0)
    assert one.size == 0


def test_the_window_doubles_with_every_chunk_up_to_its_limit() -> None:
    one = window()
    sizes = []
    for turn in range(12):
        one.came_back(turn)
        sizes.append(one.size)
        one.answered(4, turn)
    assert sizes == [8, 8, 16, 16, 32, 32, 40, 40, 40, 40, 40, 40]


def test_who_stalls_starts_anew() -> None:
    one = window()
    for turn in range(12):
        one.came_back(turn)
        one.answered(8, turn)
    assert one.size == 40
    one.came_back(16.0)
    assert one.size == 40
    one.came_back(21.1)
    assert one.size == 8


def test_a_reader_is_known_by_where_it_left_off_and_only_there() -> None:
    _, entry = make_segment(0, [make_batch(0, [1] * 9, rng=Random(1))])
    streams = Streams()
    stream = streams.begin(Reader(Account()), "p", window(), Allowance(1))
    streams.move(stream, key="k", entry=entry, position=Position(5), offset=Offset(3))
    assert streams.find("p", Offset(3)) is stream
    assert streams.find("q", Offset(3)) is None
    streams.move(stream, key="k", entry=entry, position=Position(9), offset=Offset(6))
    assert streams.find("p", Offset(3)) is None
    assert streams.find("p", Offset(6)) is stream


def test_only_so_many_readers_are_remembered() -> None:
    _, entry = make_segment(0, [make_batch(0, [1], rng=Random(1))])
    streams = Streams()
    for number in range(STREAMS_MAX + 10):
        stream = streams.begin(Reader(Account()), "p", window(), Allowance(1))
        streams.move(stream, key="k", entry=entry, position=Position(0), offset=Offset(number))
    assert len(streams) == STREAMS_MAX
    assert streams.find("p", Offset(9)) is None
