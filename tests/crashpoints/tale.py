"""A story and its crash points: which of its calls count, and what becomes of each shot.

A story is told once without a shot, to learn its calls, then once for every shot. One seed makes
one history, so a shot finds the very call that is known by its number; if not, that is a failure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tests.crashpoints.points import Point, Shot, all_shots
from tests.crashpoints.story import Story

PROBLEMS_SHOWN = 3


class Case(NamedTuple):
    """What became of a shot."""

    tale: str
    shot: Shot
    point: Point
    problems: list[str]

    def __str__(self) -> str:
        lines = [f"{self.tale}:{self.shot} at {self.point.stage}, {self.point.what}"]
        lines += [f"    {problem}" for problem in self.problems[:PROBLEMS_SHOWN]]
        lines.append(
            f"    replay: python -m tests.crashpoints.search --shot {self.tale}:{self.shot}"
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class Tale:
    name: str
    stages: tuple[str, ...]
    """Calls of these are its points; the others are those of another tale."""
    tell: Callable[[Shot | None], Story]

    def calls(self) -> tuple[Point, ...]:
        """All of the story that nothing happens to, points or not: a number is an index here."""
        return _calls(self)

    def points(self) -> list[Point]:
        return [point for point in self.calls() if point.stage in self.stages]

    def shots(self) -> list[Shot]:
        return all_shots(self.points())

    def spread(self, count: int) -> list[Shot]:
        """So many of them, the same each time, in proportion of every stage and every kind."""
        calls = self.calls()

        def kind(shot: Shot) -> tuple[object, ...]:
            point = calls[shot.number]
            return point.stage, point.is_store, shot.end.name, shot.when.value, shot.number

        ordered = sorted(self.shots(), key=kind)
        return [ordered[number * len(ordered) // count] for number in range(count)]

    def take(self, shot: Shot) -> Case:
        story = self.tell(shot)
        point, fired = self.calls()[shot.number], story.gate.fired
        if fired != point:
            story.problems.insert(0, f"not the story that was known: {fired} for {point}")
        return Case(self.name, shot, point, story.problems)

    def failures(self, shots: Sequence[Shot]) -> list[str]:
        return [str(case) for case in map(self.take, shots) if case.problems]


@cache
def _calls(tale: Tale) -> tuple[Point, ...]:
    story = tale.tell(None)
    assert not story.problems, story.problems
    return tuple(story.gate.points)
