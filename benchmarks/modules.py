"""Finds the bench modules: every `bench_*.py` of this folder, called by the rest of its name."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from benchmarks.gauge import Gauge
from benchmarks.harness import Comparison, Size

PREFIX = "bench_"
ON_REQUEST = frozenset({"cold", "kafka", "s3", "spark"})
"""Left out unless asked for by name: they need what a clone does not bring, and minutes."""


def names() -> list[str]:
    folder = str(Path(__file__).parent)
    found = (module.name for module in pkgutil.iter_modules([folder]))
    return sorted(name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))


def usual_names() -> list[str]:
    """What runs when nobody names anything."""
    return [name for name in names() if name not in ON_REQUEST]


def load(name: str) -> Callable[[Size], Iterable[Comparison | Gauge]]:
    """The `comparisons` function of a module."""
    module = importlib.import_module(f"benchmarks.{PREFIX}{name}")
    return cast("Callable[[Size], Iterable[Comparison | Gauge]]", module.comparisons)
