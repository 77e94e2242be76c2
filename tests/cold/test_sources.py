"""What a merged object says it was merged of; anything else is refused."""

import pytest

from tests.cold.makers import an_entry, entries, merged_of
from tierlog.cold import canonical, chain, sources
from tierlog.cold.entry_codec import entry_value
from tierlog.cold.errors import ColdCorrupt, NewerFormat

START = chain.genesis("a topic", 0)
UPLOADS = chain.linked(START, entries(range(3)))
MERGED = chain.replacing(merged_of(UPLOADS), UPLOADS, before=START)


def packed(**changes: object) -> bytes:
    value: dict[str, object] = {
        "entries": [entry_value(one) for one in UPLOADS],
        "format": 1,
        "kind": "sources",
    }
    return canonical.compress(canonical.to_bytes(value | changes))


def test_they_are_read_as_they_were_written() -> None:
    assert sources.encode(UPLOADS) == packed()
    assert sources.decode(packed(), key="k") == UPLOADS
    assert sources.opened(MERGED, packed()) == UPLOADS


def test_a_newer_format_is_refused_as_such() -> None:
    with pytest.raises(NewerFormat):
        sources.decode(packed(format=2), key="k")


@pytest.mark.parametrize(
    "changes", [{"kind": "leaf"}, {"more": 1}, {"entries": [1]}, {"entries": {}}, {"format": 0}]
)
def test_what_is_not_a_list_of_sources_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ColdCorrupt):
        sources.decode(packed(**changes), key="k")


def test_sources_of_another_merge_are_refused() -> None:
    others = chain.linked(START, [an_entry(9, base=0), an_entry(1), an_entry(2)])
    with pytest.raises(ColdCorrupt):
        sources.opened(MERGED, sources.encode(others))


def test_an_upload_is_its_own_source() -> None:
    assert sources.span_of(UPLOADS[0]) is None
