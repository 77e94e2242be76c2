"""What the model itself writes into the docs: the table of assumptions in docs/cost-model.md, and
what a month costs in the README, with its plot.

`python -m tests.docs.cost_tables` writes them; a test compares.
"""

from dataclasses import fields, replace
from pathlib import Path

from cost_model import load, plan
from cost_model.fields import shown, spec_of
from cost_model.presets import PRESETS, preset
from cost_model.scenario import SECTIONS, Scenario
from cost_model.text import markdown, usd
from cost_model.units import brief_duration, brief_size

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cost-model.md"
README = ROOT / "README.md"
PLOT = ROOT / "docs" / "cost-month.svg"
EXAMPLES = ("three-lines", "clickstream", "compliance", "replay-heavy", "many-small-topics")
DRAWN = "three-lines"
BEGIN = "<!-- made by python -m tests.docs.cost_tables -->"
END = "<!-- end of the table -->"


def table() -> str:
    lines = ["| input | default | why |", "| --- | --- | --- |"]
    for section, kind in SECTIONS.items():
        for each in fields(kind):
            if "spec" not in each.metadata:
                lines.append(f"| `{section}.{each.name}` | STANDARD | classes by age |")
                continue
            spec = spec_of(each)
            value = "worked out" if each.default is None else shown(spec, each.default)
            lines.append(f"| `{section}.{each.name}` | {value} | {spec.why} |")
    return "\n".join(lines)


def month() -> str:
    """Each example on tierlog and on what it could run on instead."""
    head = ["example", "written", "kept", "tierlog"]
    rows = [[*head, *(name.replace("-", ", ") for name in PRESETS)]]
    for each in EXAMPLES:
        given = example(each)
        others = [plan(preset(name, given)).total for name in PRESETS]
        totals = [usd(total, cents=False) for total in (plan(given).total, *others)]
        work = given.workload
        rows.append([each, f"{brief_size(work.write)}/s", brief_duration(work.retention), *totals])
    return "\n".join(markdown(rows))


def example(name: str) -> Scenario:
    return load(ROOT / "examples" / "cost" / f"{name}.yaml")


def drawn() -> str:
    from cost_model import plots

    given = example(DRAWN)
    ours = replace(plan(given), name="tierlog")
    bills = [ours, *(plan(preset(name, given)) for name in PRESETS)]
    return plots.svg(plots.components(bills)) + "\n"


def with_table(text: str, made: str | None = None) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made or table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
    README.write_text(with_table(README.read_text(), month()))
    PLOT.write_text(drawn())
