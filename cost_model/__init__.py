"""What a retention policy costs, with every figure as quantity x price, source and date.

Pure functions from a `Scenario` or from counted requests and bytes to money. Imports nothing of
tierlog; the command line, notebooks and other projects call the same functions.
"""

from cost_model.bill import Bill, Group, Line
from cost_model.errors import CostError, InvalidScenario, UnitMismatch
from cost_model.plan import plan
from cost_model.prices import PriceBook, default_book
from cost_model.read import from_dict, load, scenario
from cost_model.scenario import Scenario

__all__ = [
    "Bill",
    "CostError",
    "Group",
    "InvalidScenario",
    "Line",
    "PriceBook",
    "Scenario",
    "UnitMismatch",
    "default_book",
    "from_dict",
    "load",
    "plan",
    "scenario",
]
