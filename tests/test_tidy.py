"""The picture of the house, kept true.

Walks every module of tierlog and fails when a room imports upwards, and when core code reaches
around its ports for time, chance, files, threads or sockets.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tierlog"

GROUND = {"types", "errors", "config", "env", "records"}

MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "config": {"types", "errors"},
    "env": {"types", "errors"},
    "records": {"types", "errors"},
    "wire": GROUND,
    "hot": GROUND,
    "sim": GROUND,
}
"""The table of ARCHITECTURE.md. A room that is not here yet may not exist yet."""

BANNED_MODULES = {
    "time": "take time from Clock",
    "random": "take randomness from Rng",
    "secrets": "take randomness from Rng",
    "socket": "ask the running loop for connections",
    "threading": "use Tasks.in_thread",
    "multiprocessing": "use Tasks.in_process",
    "concurrent": "use Tasks",
    "subprocess": "use Tasks.in_process",
    "os": "use Disk",
    "shutil": "use Disk",
    "pathlib": "use Disk and plain strings",
    "tempfile": "use Disk",
    "io": "use Disk",
    "mmap": "use Disk",
    "ctypes": "belongs into env/",
    "fcntl": "use Disk.lock",
}
BANNED_NAMES = {"open": "use Disk.open", "input": "core code has no terminal"}
BANNED_ATTRIBUTES = {
    ("uuid", "uuid4"),
    ("uuid", "uuid1"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
}
PURE_OS_NAMES = {"path"}  # os.path.join and friends only rearrange strings
OS_PATH_CALLS_THAT_TOUCH_DISK = {"exists", "isfile", "isdir", "getsize", "realpath", "getmtime"}

ALLOWED = {("sim", "random")}
"""The simulated world draws everything from `random.Random(seed)`: that is its outside world."""

OUTSIDE = {"env", "server", "cli"}
"""Rooms that meet the outside world on purpose."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Dotted names that a module imports, function-level imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def upward_imports(path: Path, tree: ast.AST) -> Iterator[str]:
    room = room_of(path)
    if room == "__init__":
        return
    for name, line in imported(tree):
        parts = name.split(".")
        if parts[0] != "tierlog" or len(parts) < 2 or parts[1] == room:
            continue
        if parts[1] not in MAY_IMPORT[room]:
            yield f"{path.relative_to(ROOT)}:{line}: {room} may not import {parts[1]}"


def reaches_around(path: Path, tree: ast.AST) -> Iterator[str]:
    where = path.relative_to(ROOT)
    for name, line in imported(tree):
        top, _, rest = name.partition(".")
        pure = top == "os" and rest.split(".")[0] in PURE_OS_NAMES
        if top in BANNED_MODULES and not pure and (room_of(path), top) not in ALLOWED:
            yield f"{where}:{line}: imports {name}; {BANNED_MODULES[top]}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in BANNED_NAMES:
            yield f"{where}:{node.lineno}: calls {node.id}; {BANNED_NAMES[node.id]}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            pair = (node.value.id, node.attr)
            if pair in BANNED_ATTRIBUTES or (
                node.value.id == "path" and node.attr in OS_PATH_CALLS_THAT_TOUCH_DISK
            ):
                yield f"{where}:{node.lineno}: {'.'.join(pair)} goes around the ports"


def test_every_room_stands_in_the_table() -> None:
    rooms = {room_of(path) for path in modules()} - {"__init__"}
    assert rooms <= MAY_IMPORT.keys(), "a new room: add it to MAY_IMPORT and ARCHITECTURE.md"


def test_no_room_imports_upwards() -> None:
    found = [
        line for path in modules() for line in upward_imports(path, ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_core_code_meets_the_world_through_ports_only() -> None:
    found = [
        line
        for path in modules()
        if room_of(path) not in OUTSIDE
        for line in reaches_around(path, ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_every_module_opens_by_saying_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import time\n", "take time from Clock"),
        ("from random import Random\n", "take randomness from Rng"),
        ("def f():\n    import threading\n", "use Tasks.in_thread"),
        ("import os\n", "use Disk"),
        ("from os import fsync\n", "use Disk"),
        ("open('x')\n", "use Disk.open"),
        ("import uuid\nuuid.uuid4()\n", "uuid.uuid4"),
        ("from os import path\npath.exists('x')\n", "path.exists"),
        ("import socket\n", "ask the running loop"),
    ],
)
def test_the_walk_sees_a_core_module_that_reaches_around(source: str, complaint: str) -> None:
    found = list(reaches_around(PACKAGE / "hot" / "x.py", ast.parse(source)))
    assert any(complaint in line for line in found)


def test_the_walk_allows_string_work_on_paths() -> None:
    source = "from os import path\npath.join('a', 'b')\n"
    assert not list(reaches_around(PACKAGE / "hot" / "x.py", ast.parse(source)))


def test_only_the_simulated_world_may_seed_its_own_randomness() -> None:
    tree = ast.parse("from random import Random\n")
    assert not list(reaches_around(PACKAGE / "sim" / "x.py", tree))
    assert list(reaches_around(PACKAGE / "sim" / "x.py", ast.parse("import time\n")))


def test_the_walk_sees_an_upward_import() -> None:
    source = "def f():\n    from tierlog.hot import log\n"
    assert list(upward_imports(PACKAGE / "records" / "x.py", ast.parse(source)))
