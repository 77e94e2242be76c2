"""Finds the bench modules: every `bench_*.py` of this folder, called by the rest of its name."""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

from benchmarks.harness import Comparison, Size

PREFIX = "bench_"


def names() -> list[str]:
    folder = str(Path(__file__).parent)
    found = (module.name for module in pkgutil.iter_modules([folder]))
    return sorted(name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))


def load(name: str) -> Callable[[Size], list[Comparison]]:
    """The `comparisons` function of a module."""
    module = importlib.import_module(f"benchmarks.{PREFIX}{name}")
    return cast("Callable[[Size], list[Comparison]]", module.comparisons)
