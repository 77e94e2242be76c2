"""The golden files: frames that real clients sent, and the answers that they accepted.

One file per client and version, `golden/<client>-<version>.jsonl`, one exchange a line: flow, API,
version, request and response in hex, without size prefix. `tests/compat/capture.py` writes them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tierlog.wire.api_keys import ApiKey

FOLDER = Path(__file__).with_name("golden")
FRAME_BYTES_MAX = 4096
FOLDER_BYTES_MAX = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    flow: str
    api: ApiKey
    version: int
    request: bytes
    response: bytes | None

    def line(self) -> str:
        return json.dumps(
            {
                "flow": self.flow,
                "api": self.api.name,
                "version": self.version,
                "request": self.request.hex(),
                "response": None if self.response is None else self.response.hex(),
            }
        )

    @classmethod
    def parse(cls, line: str) -> Self:
        plain = json.loads(line)
        response = plain["response"]
        return cls(
            flow=plain["flow"],
            api=ApiKey[plain["api"]],
            version=plain["version"],
            request=bytes.fromhex(plain["request"]),
            response=None if response is None else bytes.fromhex(response),
        )


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.jsonl"))


def read(path: Path) -> Iterator[Golden]:
    return map(Golden.parse, path.read_text().splitlines())


def write(path: Path, lines: Iterable[Golden]) -> None:
    path.write_text("".join(one.line() + "\n" for one in lines))
