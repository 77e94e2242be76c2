"""Settings: a value out of range is refused with a sentence that names it."""

from typing import Any

import pytest

from tierlog.hot.settings import InvalidSetting, LogSettings


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("segment_bytes", 1023, "segment.bytes"),
        ("segment_bytes", (1 << 30) + 1, "segment.bytes"),
        ("segment_ms", 0, "segment.ms"),
        ("index_interval_bytes", -1, "index.interval.bytes"),
        ("flush_messages", 0, "flush.messages"),
        ("flush_messages", 2**63, "flush.messages"),
        ("flush_ms", -1, "flush.ms"),
        ("producer_expiration_ms", 0, "producer.id.expiration.ms"),
        ("checkpoint_bytes", 0, "checkpoint.bytes"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: int, name: str) -> None:
    arguments: dict[str, Any] = {field: value}
    with pytest.raises(InvalidSetting, match=rf"^{name} is {value}; it must lie in \["):
        LogSettings(**arguments)
