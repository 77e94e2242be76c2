"""Checks, patches and the walk over batches."""

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tierlog.records.batch import crc_of, patch_offset, validate_produced, validate_stored
from tierlog.types import LeaderEpoch, Offset


def test_a_sound_batch_passes_both_checks_after_its_patch() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, timestamp=1000, key=b"k", value=b"v", headers=[])
    batch = bytearray(builder.build())
    patch_offset(batch, Offset(77), LeaderEpoch(3))
    header = validate_produced(batch, size_max=1 << 20)
    assert header == validate_stored(batch)
    assert (header.base_offset, header.leader_epoch, header.crc) == (77, 3, crc_of(batch))
