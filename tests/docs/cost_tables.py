"""The table of assumptions in docs/cost-model.md, made from the fields of a scenario.

`python -m tests.docs.cost_tables` writes it; a test compares.
"""

from dataclasses import fields
from pathlib import Path

from cost_model.fields import shown, spec_of
from cost_model.scenario import SECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "cost-model.md"
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


def with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
