"""Tables for people: plain columns, no frame, so that they can be piped and cut as well."""

from collections.abc import Collection, Mapping, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 10_000


def print_table(rows: Sequence[Mapping[str, object]], *, right: Collection[str] = ()) -> None:
    typer.echo("\n".join(table_lines(rows, right=right)))


def table_lines(rows: Sequence[Mapping[str, object]], *, right: Collection[str] = ()) -> list[str]:
    """Columns are the keys of the first row; numbers stand to the right, and what `right` names."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(
            name.replace("_", " "),
            justify="right" if isinstance(value, int | float) or name in right else "left",
            no_wrap=True,
        )
    for row in rows:
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    # Nothing may be cut off: a pipe has no width, and a terminal breaks long lines by itself.
    console = Console(width=WIDTH, soft_wrap=True)
    with console.capture() as drawn:
        console.print(table)
    return [line.rstrip() for line in drawn.get().splitlines()]


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    if isinstance(value, float):
        return f"{value:.1f}"
    return "" if value is None else str(value)
