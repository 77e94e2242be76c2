"""Arithmetic that takes one number or an array of draws alike.

Formulas of the model are written once, for a float. Monte Carlo and the optimiser put numpy arrays
in the same places; then every formula gives an array. That holds as long as formulas use `+ - * /`
and the functions here instead of `if`, `min`, `max` and `math`. To the type checker it is a float.
"""

import math
from typing import Any

import numpy as np

ARRAY: Any = np.ndarray
"""Looked for inline below: these functions are most of what a bill does."""


def is_array(value: object) -> bool:
    return isinstance(value, ARRAY)


def is_zero(value: float) -> bool:
    """Nothing, and not an array either."""
    return not isinstance(value, ARRAY) and value == 0


def at_least(value: float, bound: float) -> float:
    """The larger of both."""
    if isinstance(value, ARRAY) or isinstance(bound, ARRAY):
        return _as_float(np.maximum(value, bound))
    return max(value, bound)


def at_most(value: float, bound: float) -> float:
    """The smaller of both."""
    if isinstance(value, ARRAY) or isinstance(bound, ARRAY):
        return _as_float(np.minimum(value, bound))
    return min(value, bound)


def ceil(value: float) -> float:
    """Up to a whole number. A hair above one, from rounding in binary, is that one."""
    if isinstance(value, ARRAY):
        return _as_float(np.ceil(np.asarray(value) * (1 - 1e-12)))
    return float(math.ceil(value * (1 - 1e-12)))


def floor(value: float) -> float:
    return -ceil(-value) if is_array(value) else float(math.floor(value * (1 + 1e-12)))


def where(condition: bool, yes: float, no: float) -> float:
    if isinstance(condition, ARRAY):
        return _as_float(np.where(condition, yes, no))
    return yes if condition else no


def ratio(part: float, whole: float) -> float:
    """`part / whole`, and 0 where there is no whole."""
    if isinstance(part, ARRAY) or isinstance(whole, ARRAY):
        safe = np.where(np.equal(whole, 0), 1.0, whole)
        return _as_float(np.where(np.equal(whole, 0), 0.0, np.divide(part, safe)))
    return part / whole if whole else 0.0


def between(value: float, low: float, high: float) -> float:
    """How much of `[low, high)` lies below `value`."""
    return at_most(at_least(value, low), high) - low


def every(condition: Any) -> bool:
    """Whether it holds, for an array: everywhere."""
    return bool(np.all(condition)) if isinstance(condition, ARRAY) else bool(condition)


def _as_float(array: Any) -> float:
    return array  # type: ignore[no-any-return]  # the promise of this module, see above
