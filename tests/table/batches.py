"""Sources of batches for the table's tests, and what an independent decoder makes of them."""

from typing import Any

from hypothesis import strategies as st

from tests.records.batches import codecs, record_lists
from tierlog.records.batch import iter_batches
from tierlog.records.record import decode_records, encode_batch
from tierlog.table.scan import Range
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs


@st.composite
def segments(draw: st.DrawFn, *, most: int = 6) -> bytearray:
    """Batches as a log holds them: every codec, gaps, control batches, append time, none at all."""
    data, offset = bytearray(), draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, most))):
        batch = draw(batches(offset))
        data += batch
        offset = next(header.next_offset for _, header in iter_batches(batch))
        offset += draw(st.sampled_from((0, 0, 3)))
    return data


@st.composite
def batches(draw: st.DrawFn, offset: int) -> bytearray:
    records = draw(record_lists(dense=False, min_size=0, base_offset=offset))
    last = (records[-1].offset if records else offset) + draw(st.sampled_from((0, 0, 5)))
    is_produced = draw(st.booleans())
    return encode_batch(
        records,
        base_offset=Offset(offset),
        last_offset=Offset(last),
        leader_epoch=LeaderEpoch(draw(st.integers(-1, 5))),
        codec=draw(codecs),
        producer_id=ProducerId(draw(st.integers(0, 2**63 - 1)) if is_produced else -1),
        producer_epoch=ProducerEpoch(draw(st.integers(0, 2**15 - 1)) if is_produced else -1),
        base_sequence=draw(st.integers(0, 2**31 - 1)) if is_produced else -1,
        transactional=is_produced and draw(st.booleans()),
        control=draw(st.sampled_from((False, False, False, True))),
        log_append_time=draw(st.none() | st.integers(0, 2**42).map(TimestampMs)),
    )


def range_of(data: bytes | bytearray, *, start: int | None = None, end: int | None = None) -> Range:
    headers = [header for _, header in iter_batches(data)]
    base, next_offset = headers[0].base_offset, headers[-1].next_offset
    return Range(
        topic="orders",
        partition=7,
        start=base if start is None else start,
        end=next_offset if end is None else end,
        base=base,
        next_offset=next_offset,
    )


def expected_rows(data: bytes | bytearray, *, start: int, end: int) -> list[dict[str, Any]]:
    """By the decoder of `records/`, record by record."""
    rows: list[dict[str, Any]] = []
    for position, header in iter_batches(data):
        if header.is_control:
            continue
        for record in decode_records(memoryview(data)[position:]):
            place = record.offset - header.base_offset
            rows.append(
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp * 1000,
                    "timestampType": int(header.is_log_append_time),
                    "key": record.key,
                    "value": record.value,
                    "headers": [{"key": name, "value": value} for name, value in record.headers]
                    or None,
                    "topic": "orders",
                    "partition": 7,
                    "leader_epoch": header.leader_epoch,
                    "producer_id": header.producer_id,
                    "producer_epoch": header.producer_epoch,
                    "sequence": (header.base_sequence + place) % 2**31
                    if header.base_sequence >= 0
                    else -1,
                    "is_transactional": header.is_transactional,
                    "is_control": False,
                    "batch_base_offset": header.base_offset,
                }
            )
    return [row for row in rows if start <= row["offset"] < end]
