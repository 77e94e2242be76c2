"""The picture of the house, kept true.

Walks every module of tierlog and fails when a room imports upwards, and when core code reaches
around its ports for time, chance, files, threads or sockets.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tierlog"
COST_MODEL = ROOT / "cost_model"

GROUND = {"types", "errors", "config", "env", "records"}

MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "config": {"types", "errors"},
    "env": {"types", "errors"},
    "records": {"types", "errors"},
    "wire": GROUND,
    "objectstore": GROUND,
    "metastore": GROUND,
    "hot": GROUND,
    "cold": GROUND | {"hot", "objectstore", "metastore"},
    "fetchproxy": GROUND | {"cold", "hot", "objectstore"},
    "table": GROUND | {"cold", "objectstore"},
    "client": GROUND | {"wire"},
    "broker": GROUND | {"wire", "hot", "metastore", "objectstore", "cold", "fetchproxy", "table"},
    "http": GROUND
    | {"wire", "hot", "metastore", "objectstore", "cold", "fetchproxy", "table", "broker"}
    | {"groups"},
    "coordinator": GROUND | {"wire", "hot", "broker"},
    "groups": GROUND | {"wire", "hot", "metastore", "cold", "fetchproxy", "broker", "coordinator"},
    "server": GROUND
    | {"wire", "hot", "metastore", "objectstore", "cold", "fetchproxy", "table"}
    | {"broker", "http", "groups"},
    "__main__": {"cli"},
    "cli": GROUND | {"wire", "client", "server", "cold", "table", "spark"},
    "spark": GROUND | {"table", "cold", "objectstore", "client", "wire"},
    "sim": GROUND | {"metastore", "objectstore"},
}
"""The table of ARCHITECTURE.md. A room that is not here yet may not exist yet."""

BANNED: dict[str, str] = {
    "time": "take time from Clock",
    "datetime.datetime.now": "take time from Clock",
    "datetime.datetime.utcnow": "take time from Clock",
    "datetime.datetime.today": "take time from Clock",
    "datetime.date.today": "take time from Clock",
    "sched": "use the loop's timers",
    "random": "take randomness from Rng",
    "secrets": "take randomness from Rng",
    "uuid.uuid1": "take randomness from Rng",
    "uuid.uuid4": "take randomness from Rng",
    "uuid.getnode": "the machine belongs into env/",
    "socket": "ask the running loop for connections",
    "socketserver": "ask the running loop for connections",
    "http": "ask the running loop for connections",
    "urllib.request": "ask the running loop for connections",
    "select": "ask the running loop for connections",
    "selectors": "ask the running loop for connections",
    "threading": "use Tasks.in_thread",
    "_thread": "use Tasks.in_thread",
    "queue": "use asyncio.Queue",
    "asyncio.to_thread": "use Tasks.in_thread",
    "concurrent": "use Tasks",
    "multiprocessing": "use Tasks.in_process",
    "subprocess": "use Tasks.in_process",
    "asyncio.create_subprocess_exec": "use Tasks.in_process",
    "asyncio.create_subprocess_shell": "use Tasks.in_process",
    "asyncio.subprocess": "use Tasks.in_process",
    "os": "use Disk",
    "posix": "use Disk",
    "posixpath": "use os.path",
    "shutil": "use Disk",
    "glob": "use Disk.listdir",
    "pathlib": "use Disk and plain strings",
    "tempfile": "use Disk",
    "io": "use Disk",
    "mmap": "use Disk",
    "fileinput": "use Disk",
    "linecache": "use Disk",
    "zipfile": "use Disk",
    "tarfile": "use Disk",
    "sqlite3": "use Disk",
    "shelve": "use Disk",
    "dbm": "use Disk",
    "codecs.open": "use Disk.open",
    "gzip.open": "use Disk.open",
    "gzip.GzipFile": "use Disk.open",
    "bz2.open": "use Disk.open",
    "bz2.BZ2File": "use Disk.open",
    "lzma.open": "use Disk.open",
    "lzma.LZMAFile": "use Disk.open",
    "logging.FileHandler": "use Disk.open",
    "logging.handlers": "use Disk.open",
    "builtins.open": "use Disk.open",
    "builtins.input": "core code has no terminal",
    "builtins.__import__": "import by name",
    "fcntl": "use Disk.lock",
    "ctypes": "belongs into env/",
    "signal": "belongs into env/",
}
"""A name and everything below it, and where to go instead."""

BANNED_METHODS = {"run_in_executor": "use Tasks.in_thread"}
"""Banned on whatever object they are called: the walk does not know types."""

BUILTINS = {name: f"builtins.{name}" for name in ("open", "input", "__import__")}

PURE_PATH_CALLS = {
    f"os.path.{name}"
    for name in ("basename", "dirname", "isabs", "join", "normpath", "split", "splitext")
}
"""What only rearranges strings. The rest of `os.path` asks the disk."""

ALLOWED = {
    # The simulated world draws everything from `random.Random(seed)`: that is its outside world.
    ("sim", "random"),
    # Its `Tasks` hand thread calls to its own loop, which runs them in virtual time.
    ("sim", "run_in_executor"),
}

OUTSIDE = {"env", "server", "cli", "spark"}
"""Rooms that meet the outside world on purpose; `spark` runs in somebody else's processes."""


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


def origins(tree: ast.AST) -> dict[str, str]:
    """Names of a module that were imported, and the dotted name each of them stands for."""
    table = dict(BUILTINS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]  # `import a.b` binds `a`.
                table[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                table[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return table


def dotted(node: ast.AST, table: dict[str, str]) -> str | None:
    """What `a.b.c` means if `a` was imported or is a builtin of interest; None for all else."""
    if isinstance(node, ast.Name):
        return table.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value, table)):
        return f"{owner}.{node.attr}"
    return None


def mentioned(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported thing that the code uses, by its full name; the longest chain of dots only."""
    table = origins(tree)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner:
            if (name := dotted(node, table)) is not None:
                yield name, node.lineno
        elif isinstance(node, ast.Call) and dotted(node.func, table) == "importlib.import_module":
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), node.lineno


def ban_on(name: str) -> str | None:
    """Why `name` may not be used, if something at or above it is banned."""
    if name.endswith(".*"):
        return "a star hides what is imported"
    if name in PURE_PATH_CALLS:
        return None
    parts = name.split(".")
    above = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((BANNED[each] for each in above if each in BANNED), None)


def reaches_around(path: Path, tree: ast.AST) -> Iterator[str]:
    where, room = path.relative_to(ROOT), room_of(path)
    # The module `os.path` may be imported: what is called in it counts.
    imports = [(name, line) for name, line in imported(tree) if name != "os.path"]
    for name, line in [*imports, *mentioned(tree)]:
        reason = ban_on(name)
        if reason is not None and (room, name.partition(".")[0]) not in ALLOWED:
            yield f"{where}:{line}: {name} goes around the ports; {reason}"
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for node in methods:
        if node.attr in BANNED_METHODS and (room, node.attr) not in ALLOWED:
            reason = BANNED_METHODS[node.attr]
            yield f"{where}:{node.lineno}: {node.attr} goes around the ports; {reason}"


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


COST_MODEL_NEEDS = {"numpy", "yaml"}
"""Beside the standard library: the cost model is usable alone."""
PLOTS, PLOTS_NEED = COST_MODEL / "plots.py", {"altair", "vl_convert"}
"""The one file that draws; nothing but pages and notebooks imports it."""


def foreign_imports(tree: ast.AST) -> set[str]:
    tops = {name.partition(".")[0] for name, _ in imported(tree)}
    return tops - sys.stdlib_module_names - COST_MODEL_NEEDS - {"cost_model"}


def test_the_cost_model_imports_nothing_of_tierlog_and_is_usable_alone() -> None:
    found = {
        str(path.relative_to(ROOT)): foreign
        for path in sorted(COST_MODEL.rglob("*.py"))
        if (foreign := foreign_imports(ast.parse(path.read_text())))
    }
    assert found == {str(PLOTS.relative_to(ROOT)): PLOTS_NEED}
    drawing = {
        path.name
        for path in COST_MODEL.rglob("*.py")
        for name, _ in imported(ast.parse(path.read_text()))
        if name.startswith("cost_model.plots")
    }
    assert drawing == {"page.py"}
    assert foreign_imports(ast.parse("def f():\n    from tierlog.types import Offset\n"))


def test_only_the_command_line_knows_the_cost_model() -> None:
    knowing = {
        room_of(path)
        for path in modules()
        for name, _ in imported(ast.parse(path.read_text()))
        if name.partition(".")[0] == "cost_model"
    }
    assert knowing == {"cli"}


S3_LIBRARIES = {"boto3", "botocore", "urllib3"}


def test_only_the_s3_adapter_knows_its_libraries() -> None:
    """They open connections of their own, past the loop: in threads, behind a port."""
    adapter = PACKAGE / "objectstore" / "s3"
    knowing = {
        path.parent
        for path in modules()
        for name, _ in imported(ast.parse(path.read_text()))
        if name.partition(".")[0] in S3_LIBRARIES
    }
    assert knowing == {adapter}


def test_every_module_opens_by_saying_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in [*modules(), *sorted(COST_MODEL.rglob("*.py"))]
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import time", "time goes around the ports; take time from Clock"),
        ("import time as t", "take time from Clock"),
        ("__import__('time')", "builtins.__import__"),
        ("import importlib\nimportlib.import_module('time')", "take time from Clock"),
        ("from importlib import import_module as get\nget('os.path')", "use Disk"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
        ("import datetime as dt\ndt.date.today()", "datetime.date.today"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime as d\nclock = d.utcnow", "datetime.datetime.utcnow"),
        ("from random import Random", "take randomness from Rng"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("import uuid as u\nu.uuid1()", "uuid.uuid1"),
        ("from uuid import uuid4", "uuid.uuid4"),
        ("def f():\n    import threading", "use Tasks.in_thread"),
        ("import _thread", "use Tasks.in_thread"),
        ("import asyncio\nasyncio.to_thread(print)", "asyncio.to_thread"),
        ("from asyncio import to_thread", "asyncio.to_thread"),
        ("loop.run_in_executor(None, print)", "run_in_executor"),
        ("call = self.loop().run_in_executor", "run_in_executor"),
        ("import concurrent.futures", "use Tasks"),
        ("import asyncio\nasyncio.create_subprocess_exec('ls')", "use Tasks.in_process"),
        ("import os", "use Disk"),
        ("import posix", "use Disk"),
        ("from os import fsync", "os.fsync"),
        ("from os import *", "a star hides"),
        ("import os.path\nos.unlink('x')", "os.unlink"),
        ("import os.path\nos.path.exists('x')", "os.path.exists"),
        ("import os.path\nask(os)", "os goes around"),
        ("import os.path as p\np.getsize('x')", "os.path.getsize"),
        ("from os import path\npath.exists('x')", "os.path.exists"),
        ("from os.path import exists", "os.path.exists"),
        ("from os.path import abspath as join", "os.path.abspath"),
        ("open('x')", "use Disk.open"),
        ("f = open", "use Disk.open"),
        ("import builtins\nbuiltins.open('x')", "builtins.open"),
        ("from builtins import open as o", "builtins.open"),
        ("import codecs\ncodecs.open('x')", "codecs.open"),
        ("import gzip as g\ng.open('x')", "gzip.open"),
        ("import glob", "use Disk.listdir"),
        ("import socket", "ask the running loop"),
        ("import select", "ask the running loop"),
    ],
)
def test_the_walk_sees_a_core_module_that_reaches_around(source: str, complaint: str) -> None:
    found = list(reaches_around(PACKAGE / "hot" / "x.py", ast.parse(source)))
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    "source",
    [
        "from os import path\npath.join('a', 'b')",
        "import os.path\nos.path.dirname('a/b')",
        "from os.path import basename as base\nbase('a/b')",
        "import asyncio\nasyncio.open_connection('host', 1)\nasyncio.sleep(1)",
        "from datetime import datetime, timezone\ndatetime.fromtimestamp(0, timezone.utc)",
        "import uuid\nuuid.UUID(bytes=b'0' * 16)",
        "import gzip\ngzip.decompress(b'')",
        "disk.open('x')\nself.time = now",
    ],
)
def test_the_walk_lets_pure_work_and_the_loop_pass(source: str) -> None:
    assert not list(reaches_around(PACKAGE / "hot" / "x.py", ast.parse(source)))


def test_only_the_simulated_world_may_seed_its_own_randomness() -> None:
    tree = ast.parse("from random import Random\n")
    assert not list(reaches_around(PACKAGE / "sim" / "x.py", tree))
    assert list(reaches_around(PACKAGE / "sim" / "x.py", ast.parse("import time\n")))


def test_the_walk_sees_an_upward_import() -> None:
    source = "def f():\n    from tierlog.hot import log\n"
    assert list(upward_imports(PACKAGE / "records" / "x.py", ast.parse(source)))
