"""Drives the real clients against the recorder and rewrites the golden files.

`python -m tests.compat.capture [CLIENT ...]`. Kept are distinct frames: one of a kind per flow, API
and version, where correlation ids do not count. Large frames are left out.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping

from tests.compat import golden
from tests.compat.clients import CLIENTS, Client
from tests.compat.flows import CLASSIC_FLOWS, FLOWS
from tests.compat.golden import Golden
from tests.compat.recorder import CEILINGS, CLASSIC, Exchange, recording
from tierlog.wire.api_keys import ApiKey

KINDS_MAX = 2
"""Frames kept per flow, API and version: the first ones differ, the later ones repeat."""


def capture(client: Client) -> list[Golden]:
    kept: dict[bytes, Golden] = {}
    for flow in FLOWS:
        _add(kept, _drive(client, flow, CEILINGS), flow)
    for flow in CLASSIC_FLOWS:
        _add(kept, _drive(client, flow, CLASSIC), f"{flow}, classic")
    return list(kept.values())


def _drive(client: Client, flow: str, ceilings: Mapping[ApiKey, int]) -> list[Exchange]:
    with recording(ceilings=ceilings) as recorder:
        FLOWS[flow](client, f"127.0.0.1:{recorder.world.port}")
    assert not recorder.faults, recorder.faults
    return recorder.exchanges


def _add(kept: dict[bytes, Golden], exchanges: Iterable[Exchange], flow: str) -> None:
    seen: dict[tuple[ApiKey, int], int] = {}
    for one in exchanges:
        kind = (one.api, one.version)
        identity = _without_correlation_id(one.request)
        if identity in kept or seen.get(kind, 0) >= KINDS_MAX or _is_large(one):
            continue
        seen[kind] = seen.get(kind, 0) + 1
        kept[identity] = Golden(
            flow=flow,
            api=one.api,
            version=one.version,
            request=one.request,
            response=one.response,
        )


def _without_correlation_id(frame: bytes) -> bytes:
    return frame[:4] + frame[8:]


def _is_large(one: Exchange) -> bool:
    return max(len(one.request), len(one.response or b"")) > golden.FRAME_BYTES_MAX


def chosen(names: Iterable[str]) -> Iterator[Client]:
    wanted = set(names)
    return (client for client in CLIENTS if not wanted or client.name in wanted)


def main(names: list[str]) -> None:
    golden.FOLDER.mkdir(exist_ok=True)
    for client in chosen(names):
        lines = capture(client)
        path = golden.FOLDER / f"{client.name}-{client.version()}.jsonl"
        golden.write(path, lines)
        print(f"{path.name}: {len(lines)} exchanges, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
