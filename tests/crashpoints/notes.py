"""A search that goes on where it was cut off: what became of each case, in a file of JSON lines.

The first line is a hash of all cases and their calls: a file of other stories is refused, for a
shot of the same number would be another call there. A line that was cut off counts as none.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from tests.crashpoints.points import Shot, parse_shot
from tests.crashpoints.tale import Case, Tale


class OtherStories(Exception):
    """The file is of stories that are told differently now."""


class Notes:
    def __init__(self, path: Path, tales: Iterable[Tale]) -> None:
        self._path = path
        self._tales = {tale.name: tale for tale in tales}
        self.cases = self._read()

    def _read(self) -> list[Case]:
        print_ = self._fingerprint()
        if not self._path.exists():
            self._path.write_text(print_ + "\n")
        first, *lines = self._path.read_text().split("\n")
        if first != print_:
            raise OtherStories(f"{self._path} is of other stories: remove it and begin anew")
        whole = lines[:-1]
        self._path.write_text("".join(f"{line}\n" for line in (first, *whole)))
        return [self._case(*json.loads(line)) for line in whole]

    def _fingerprint(self) -> str:
        calls = [(name, *point) for name, tale in self._tales.items() for point in tale.points()]
        return sha256(json.dumps(calls).encode()).hexdigest()

    def _case(self, tale: str, shot: str, problems: list[str]) -> Case:
        found = parse_shot(shot)
        return Case(tale, found, self._tales[tale].calls()[found.number], problems)

    @property
    def taken(self) -> set[tuple[str, Shot]]:
        return {(case.tale, case.shot) for case in self.cases}

    def add(self, case: Case) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps([case.tale, str(case.shot), case.problems]) + "\n")
        self.cases.append(case)
