"""What leaves the manifest, as JSON and back: garbage, why offsets expired, and by which policy.

All of these fields are younger than the format. They stand only where they say something, so that a
manifest without them is written as it always was.
"""

from tierlog.cold.fields import Fields
from tierlog.cold.head import NOT_YET, REASONS, Expired, Garbage, Head, Policy
from tierlog.cold.layout import KEY_CHARACTERS_MAX, parse_page_key, parse_segment_key
from tierlog.types import Offset

EXPIRED_MAX = 64
"""Reasons that wait for their segments to become garbage. `shedding.moved` keeps to it."""

_DEFAULTS = Garbage("", None, 0)._asdict()
_ALWAYS = ("key", "version_id", "not_before_ms")


def leaving_value(head: Head) -> dict[str, object]:
    """The optional fields of HEAD."""
    value: dict[str, object] = {}
    if head.garbage_end != NOT_YET:
        value["garbage_end"] = head.garbage_end
    if head.expired:
        value["expired"] = [one._asdict() for one in head.expired]
    if head.policy is not None:
        value["policy"] = head.policy._asdict()
    return value


def garbage_value(garbage: Garbage) -> dict[str, object]:
    return {
        name: value
        for name, value in garbage._asdict().items()
        if name in _ALWAYS or value != _DEFAULTS[name]
    }


def read_garbage(fields: Fields) -> Garbage:
    garbage = Garbage(
        fields.text("key", KEY_CHARACTERS_MAX),
        fields.maybe_text("version_id"),
        fields.integer("not_before_ms", -1),
        why=_read_why(fields) if fields.has("why") else "",
        policy_version=_integer(fields, "policy_version"),
        expired_ms=_integer(fields, "expired_ms"),
        sha256=fields.digest("sha256") if fields.has("sha256") else "",
        size=_integer(fields, "size"),
        segments_from=_integer(fields, "segments_from"),
    )
    fields.close()
    # What stands here is going to be deleted.
    if not (parse_segment_key(garbage.key) or parse_page_key(garbage.key)):
        fields.refuse("key", "is not that of a segment or a page")
    return garbage


def read_garbage_end(fields: Fields) -> Offset:
    return Offset(_integer(fields, "garbage_end"))


def read_expired(fields: Fields) -> tuple[Expired, ...]:
    if not fields.has("expired"):
        return ()
    return tuple(_read_expired(one) for one in fields.inners("expired", EXPIRED_MAX))


def _read_expired(fields: Fields) -> Expired:
    expired = Expired(
        Offset(fields.integer("end")),
        _read_why(fields),
        fields.integer("policy_version"),
        fields.integer("time_ms", -1),
    )
    fields.close()
    return expired


def read_policy(fields: Fields) -> Policy | None:
    if not fields.has("policy"):
        return None
    inner = fields.inner("policy")
    policy = Policy(inner.integer("retention_ms", -1), inner.integer("retention_bytes", -1))
    inner.close()
    return policy


def _read_why(fields: Fields) -> str:
    why = fields.text("why")
    if why not in REASONS:
        fields.refuse("why", f"is none of {', '.join(REASONS)}")
    return why


def _integer(fields: Fields, name: str) -> int:
    return fields.integer(name) if fields.has(name) else -1
