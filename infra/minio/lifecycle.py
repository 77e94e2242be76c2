"""Applies the lifecycle rules that a bucket of tierlog needs, and refuses one that would lose data.

    MINIO_ENDPOINT=http://127.0.0.1:9000 python infra/minio/lifecycle.py BUCKET [--prefix P]
        [--noncurrent-days N] [--check]

tierlog deletes what has expired itself, in the order that its manifests ask for. Three things are
the bucket's: versions that were replaced or deleted go after N days (30 by default: the window in
which a mistake can be undone), marks of deletions that hide nothing any more go, and multipart
uploads that were left half way are aborted after two days. Everything else in the bucket's rules
stays as it is.

A rule that expires current objects below tierlog's prefix, or moves them to where tierlog cannot
read them, loses data: such a bucket is refused with exit code 1, and nothing is changed. Moves of
objects of 128 KiB and more to a class that answers at once are none of that; `tierlog cost
optimise` writes such rules. `--check` only looks. Keys and region by the usual AWS chain, or
MINIO_ROOT_USER and MINIO_ROOT_PASSWORD; without MINIO_ENDPOINT it is AWS.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

OURS = "tierlog-"
"""What the ids of our rules begin with: they are replaced, all others stay."""
ABORT_DAYS = 2
LOSING = ("Days", "Date")
"""Of `Expiration`: with one of these, current objects go."""
READABLE = ("STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR")
"""Classes that answer a GET at once. Archives, and tiers of MinIO by whatever name, do not, or may
not: tierlog never asks for a restore."""
INFREQUENT = ("STANDARD_IA", "ONEZONE_IA")
INFREQUENT_DAYS = 30
"""S3 moves to these classes no earlier, and out of them no sooner."""
LEAST_BYTES = 128 << 10
"""Manifests are smaller, for the most part, and read all the time: they stay."""


def rules_for(prefix: str, *, noncurrent_days: int, aborts: bool) -> list[dict[str, Any]]:
    where = {"Filter": {"Prefix": prefix}, "Status": "Enabled"}
    rules: list[dict[str, Any]] = [
        {
            "ID": f"{OURS}noncurrent",
            **where,
            "NoncurrentVersionExpiration": {"NoncurrentDays": noncurrent_days},
        },
        {"ID": f"{OURS}marks", **where, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]
    if aborts:
        abort = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ABORT_DAYS}}
        rules.append({"ID": f"{OURS}uploads", **where, **abort})
    return rules


def losing_rules(rules: Sequence[dict[str, Any]], prefix: str) -> list[str]:
    """Sentences about rules that would take current objects below the prefix away."""
    found = []
    for rule in rules:
        if rule.get("Status") != "Enabled" or not _touches(_prefix_of(rule), prefix):
            continue
        name = rule.get("ID", "without a name")
        if any(one in rule.get("Expiration", {}) for one in LOSING):
            found.append(f"rule {name} deletes current objects below '{_prefix_of(rule)}'")
        found += [
            f"rule {name} moves current objects below '{_prefix_of(rule)}' away: {why}"
            for why in _losing_moves(rule)
        ]
    return found


def _losing_moves(rule: dict[str, Any]) -> list[str]:
    """What is wrong with the moves of a rule; nothing, if tierlog can live with all of them."""
    one = rule.get("Transition")
    moves: list[dict[str, Any]] = rule.get("Transitions") or ([one] if one else [])
    found = [
        f"{move.get('StorageClass')} is none of {', '.join(READABLE)}"
        for move in moves
        if move.get("StorageClass") not in READABLE
    ]
    if moves and _least_size_of(rule) < LEAST_BYTES:
        found.append(f"not only objects of {LEAST_BYTES} bytes and more")
    return found + _wrong_days(moves)


def _wrong_days(moves: list[dict[str, Any]]) -> list[str]:
    found = [
        f"{move.get('StorageClass')} has no days"
        for move in moves
        if not _is_days(move.get("Days"))
    ]
    if found:
        return found
    free = 0
    for move in sorted(moves, key=lambda one: int(one["Days"])):
        days, name = int(move["Days"]), move.get("StorageClass")
        least = max(free, INFREQUENT_DAYS if name in INFREQUENT else 0)
        if days < least:
            found.append(f"{name} after {days} days, S3 asks for {least}")
        free = days + INFREQUENT_DAYS if name in INFREQUENT else days
    return found


def _is_days(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _least_size_of(rule: dict[str, Any]) -> int:
    """Of objects that it meets."""
    chosen = rule.get("Filter", {})
    above = chosen.get("ObjectSizeGreaterThan", chosen.get("And", {}).get("ObjectSizeGreaterThan"))
    return 0 if above is None else int(above) + 1


def _prefix_of(rule: dict[str, Any]) -> str:
    """A rule with tags or sizes beside a prefix may still meet our objects."""
    chosen = rule.get("Filter", {})
    return str(
        rule.get("Prefix") or chosen.get("Prefix") or chosen.get("And", {}).get("Prefix", "")
    )


def _touches(theirs: str, ours: str) -> bool:
    return theirs.startswith(ours) or ours.startswith(theirs)


def client_of() -> Any:
    user, password = os.environ.get("MINIO_ROOT_USER"), os.environ.get("MINIO_ROOT_PASSWORD")
    keys = {"aws_access_key_id": user, "aws_secret_access_key": password} if user else {}
    endpoint = os.environ.get("MINIO_ENDPOINT")
    # MinIO answers to any region; AWS must be told the right one by the usual chain.
    region = {"region_name": os.environ.get("AWS_DEFAULT_REGION", "us-east-1")} if endpoint else {}
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        config=Config(proxies={} if endpoint else None),
        **keys,
        **region,
    )


def rules_in(client: Any, bucket: str) -> list[dict[str, Any]]:
    try:
        answer = client.get_bucket_lifecycle_configuration(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration":
            return []
        raise
    rules: list[dict[str, Any]] = answer["Rules"]
    return rules


def apply(client: Any, bucket: str, prefix: str, *, noncurrent_days: int) -> list[dict[str, Any]]:
    """Replace our rules beside the others. What was set."""
    others = [one for one in rules_in(client, bucket) if not one.get("ID", "").startswith(OURS)]
    for aborts in (True, False):
        ours = rules_for(prefix, noncurrent_days=noncurrent_days, aborts=aborts)
        try:
            client.put_bucket_lifecycle_configuration(
                Bucket=bucket, LifecycleConfiguration={"Rules": [*others, *ours]}
            )
        except ClientError:
            if not aborts:
                raise
            continue  # MinIO does not take that rule: it aborts uploads of a day by itself.
        return ours
    raise AssertionError("one of the two is taken or raises")


def described(rule: dict[str, Any]) -> str:
    what = {key: one for key, one in rule.items() if key not in ("ID", "Status", "Filter")}
    return f"  {rule['ID']}: {what} below '{_prefix_of(rule)}'"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("bucket")
    parser.add_argument("--prefix", default="", help="of tierlog in the bucket; empty: all of it")
    parser.add_argument("--noncurrent-days", type=int, default=30)
    parser.add_argument("--check", action="store_true", help="look, and change nothing")
    options = parser.parse_args(words)
    prefix = f"{options.prefix.strip('/')}/" if options.prefix.strip("/") else ""
    client = client_of()
    try:
        if problems := losing_rules(rules_in(client, options.bucket), prefix):
            print(
                f"refused, nothing was changed: {options.bucket} would lose data", file=sys.stderr
            )
            print("\n".join(f"  {one}" for one in problems), file=sys.stderr)
            return 1
        if options.check:
            print(f"no rule of {options.bucket} takes current objects below '{prefix}' away")
            return 0
        ours = apply(client, options.bucket, prefix, noncurrent_days=options.noncurrent_days)
    except (ClientError, BotoCoreError) as error:
        print(f"{options.bucket}: {error}", file=sys.stderr)
        return 1
    print(f"set in {options.bucket}:")
    print("\n".join(described(one) for one in ours))
    if not any("AbortIncompleteMultipartUpload" in one for one in ours):
        print("  uploads left half way: not taken by this store, which must abort them by itself")
    return 0


if __name__ == "__main__":
    sys.exit(main())
