"""What a replay would cost."""

import pytest

from cost_model import InvalidScenario, default_book
from cost_model.quote import Read, Replay
from cost_model.units import GIB, MIB, TB

BOOK = default_book()


def reading(
    name: str = "STANDARD", *, segments: int = 8, size: int = int(128 * MIB)
) -> dict[str, Read]:
    read = Read()
    for _ in range(segments):
        read.add(size=size)
    return {name: read}


def test_a_gibibyte_in_segments_of_128_mib_takes_136_gets() -> None:
    replay = Replay(classes=reading(), source="segments", rate=GIB)
    assert (replay.bytes, replay.gets, replay.segments) == (int(GIB), 136, 8)
    assert replay.seconds == 1.0
    assert float(replay.bill(BOOK).total) == pytest.approx(136 * 0.0004 / 1000)


def test_through_brokers_two_thirds_cross_zones_and_both_sides_pay() -> None:
    network = Replay(classes=reading()).bill(BOOK).group("network").amount
    assert float(network) == pytest.approx(2 / 3 * 0.02)
    one = Replay(classes=reading(), zones=1).bill(BOOK)
    assert one.group("network").amount == 0


def test_colder_classes_bill_every_byte() -> None:
    """100 TB in 8 MiB reads of Glacier Instant Retrieval: $0.03 a GB beside the requests."""
    read = Read()
    read.add(size=int(100 * TB))
    replay = Replay(classes={"GLACIER_IR": read}, source="segments")
    lines = {line.item: float(line.amount) for line in replay.bill(BOOK).lines}
    assert lines["replay in GLACIER_IR: retrieval"] == pytest.approx(100 * TB / GIB * 0.03)


def test_what_takes_hours_is_said() -> None:
    bill = Replay(classes=reading("DEEP_ARCHIVE"), source="segments").bill(BOOK)
    assert any("must be restored first" in one for one in bill.warnings)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(InvalidScenario, match="did you mean broker"):
        Replay(source="brokr")
