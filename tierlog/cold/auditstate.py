"""How far a deep audit has come: a file beside it, so that the next run goes on there.

A line of JSON for each object that was found sound: its key, its SHA-256 and the version of the
HEAD that listed it. Only appended to, so a run that is killed leaves at most a torn last line,
which means nothing. Damaged objects are not in it: every run reads and reports them again. Behind
the last object stands that the audit is finished; a run that finds this begins anew.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from tierlog.cold.refusals import ClusterUnknown
from tierlog.hot import smallfile

if TYPE_CHECKING:
    from tierlog.cold.entry import Entry
    from tierlog.env import Disk

FORMAT = 1


class AuditState:
    """`open` reads what an earlier run left. Writing blocks for microseconds: nothing is synced."""

    def __init__(self, disk: Disk, path: str, *, cluster_id: str) -> None:
        self._disk = disk
        self._path = path
        self._first = {"format": FORMAT, "kind": "verify", "cluster_id": cluster_id}
        self._done: set[bytes] = set()

    def open(self) -> None:
        """Raises `ClusterUnknown` if the file is of another cluster, or something else."""
        lines: list[str] = []
        if self._disk.exists(self._path):
            data = smallfile.read_all(self._disk, self._path)
            lines = data[: data.rfind(b"\n") + 1].decode(errors="replace").splitlines()
            if data and (not lines or _value(lines[0]) != self._first):
                raise ClusterUnknown(
                    f"{self._path} is not the state of a verification of this cluster: name "
                    "another file with --state, or remove it"
                )
        is_finished = bool(lines) and "finished" in _value(lines[-1])
        self._done = set() if is_finished else {_mark(_value(one)) for one in lines[1:]}
        self._file = self._disk.open(self._path, create=True)
        kept = [] if is_finished else lines
        text = "".join(f"{one}\n" for one in kept).encode()
        self._position = 0
        if not kept:
            self._file.truncate(0)
            self._write(self._first)
        else:
            self._position = len(text)
            self._file.truncate(self._position)

    def close(self) -> None:
        self._file.close()

    def is_done(self, key: str, entry: Entry) -> bool:
        """Whether these bytes were found sound already."""
        return _mark({"key": key, "sha256": entry.sha256}) in self._done

    def note(self, key: str, entry: Entry, *, head_version: int) -> None:
        value = {"key": key, "sha256": entry.sha256, "head": head_version}
        self._done.add(_mark(value))
        self._write(value)

    def finish(self) -> None:
        self._write({"finished": True})

    def _write(self, value: dict[str, object]) -> None:
        line = json.dumps(value).encode() + b"\n"
        self._position += self._file.pwrite(line, self._position)


def _value(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _mark(value: dict[str, object]) -> bytes:
    """Short: there may be millions."""
    return sha256(f"{value.get('key')} {value.get('sha256')}".encode()).digest()[:16]
