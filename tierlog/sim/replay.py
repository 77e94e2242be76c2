"""Run one scenario under one seed: the command that a failure prints.

    python -m tierlog.sim.replay tierlog.sim.couriers:couriers --seed 7 [--trace]

The scenario is named `module:function`. Exit code 0 if it holds, 1 with its traceback if not;
`--trace` prints every event of the history.
"""

import argparse
import gc
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from tierlog.sim.world import Scenario, SimWorld, simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One scenario under one seed."""

    seed: int
    virtual_seconds: float
    callbacks: int
    trace_hash: str
    failure: str | None
    """The traceback, or nothing when the scenario held."""
    error: str = ""
    """The first line of what went wrong."""


def load(name: str) -> Scenario[object]:
    module, _, function = name.partition(":")
    scenario: Scenario[object] = getattr(import_module(module), function)
    return scenario


def run_seed(name: str, seed: int, *, loud: bool = False) -> RunReport:
    scenario = load(name)
    world = SimWorld(seed)
    if loud:
        world.loop.trace.listener = _say
    failure, error = None, ""
    try:
        simulate(scenario, seed=seed, world=world)
    except Exception as raised:  # noqa: BLE001  the report carries it
        failure = "".join(traceback.format_exception(raised))
        error = f"{type(raised).__name__}: {raised}".partition("\n")[0]
    return RunReport(
        seed=seed,
        virtual_seconds=world.loop.time(),
        callbacks=world.loop.steps,
        trace_hash=world.trace_hash(),
        failure=failure,
        error=error,
    )


def run_slice(name: str, seeds: Sequence[int]) -> list[RunReport]:
    """For worker processes, which cannot import a `__main__`.

    What a scenario imports outlives all seeds: the collector need not walk over it after each."""
    load(name)
    gc.collect()
    gc.freeze()
    return [run_seed(name, seed) for seed in seeds]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tierlog.sim.replay", description=__doc__)
    parser.add_argument("scenario", help="module:function")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    report = run_seed(options.scenario, options.seed, loud=options.trace)
    if report.failure:
        _say(report.failure)
    _say(
        f"{options.scenario} seed {report.seed}: {'FAILED' if report.failure else 'held'}, "
        f"{report.callbacks} callbacks, {report.virtual_seconds:.1f} virtual s, "
        f"trace {report.trace_hash}"
    )
    return 1 if report.failure else 0


if __name__ == "__main__":
    sys.exit(main())
