"""A report as one HTML page that needs nothing else: no script, style sheet, font or network.

Plots are inline SVG. Made of parts, in order: paragraphs, tables, plots, the tree of a bill. All
text is escaped; links lead to sources and load nothing.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from cost_model.bill import Bill, Line
from cost_model.plots import svg
from cost_model.text import number, usd

STYLE = """
body { font: 15px/1.45 Helvetica, Arial, sans-serif; color: #222; background: #fff;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.u { white-space: nowrap; }
th { border-bottom: 1px solid #999; font-weight: 600; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr.group td { border-top: 1px solid #ddd; font-weight: 600; padding-top: .5rem; }
small, .how { color: #555; font-size: .85rem; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } .paragraph { display: block; margin: .8rem 0; }
.note { border-left: 3px solid #f58518; padding-left: .7rem; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def heading(words: str) -> str:
    return f"<h2>{escape(words)}</h2>"


def paragraph(words: str) -> str:
    return f"<p>{escape(words)}</p>"


def note(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>'


def preformatted(words: str) -> str:
    return f'<div class="wide"><pre>{escape(words)}</pre></div>'


def plot(chart: Any, *, name: str, caption: str) -> str:
    """`name` is unlike those of the other plots of the page."""
    drawn = svg(chart, name=name)
    return f"<figure>{drawn}<figcaption><small>{escape(caption)}</small></figcaption></figure>"


def table(rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """The first row is the head; the first `words` columns are words, the others figures."""
    head, *body = rows
    lines = [_row(head, "th", words), *(_row(row, "td", words) for row in body)]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _row(cells: Sequence[str], tag: str, words: int) -> str:
    made = (
        f"<{tag}{'' if at < words else ' class=n'}>{_text(cell)}</{tag}>"
        for at, cell in enumerate(cells)
    )
    return f"<tr>{''.join(made)}</tr>"


def _text(cell: str) -> str:
    """Blanks before a word stand for a step down."""
    inner = cell.lstrip(" ")
    return "&emsp;" * ((len(cell) - len(inner)) // 2) + escape(inner)


def bill_tree(bill: Bill) -> str:
    """Every line with its arithmetic and source."""
    rows = ["<tr><th>line<th class=n>quantity<th>unit<th class=n>price<th class=n>amount</tr>"]
    for group in bill.groups:
        rows.append(
            f'<tr class="group"><td>{escape(group.name)}<td><td><td>'
            f"<td class=n>{usd(group.amount)}</tr>"
        )
        rows += [_line(line) for line in group.lines]
    rows.append(f'<tr class="group"><td>in all<td><td><td><td class=n>{usd(bill.total)}</tr>')
    return f'<div class="wide"><table>{"".join(rows)}</table></div>{_sources(bill)}'


def _line(line: Line) -> str:
    price = line.price
    origin = f"{price.confidence}, {price.source.name}, {price.source.date}"
    return (
        f"<tr><td>{escape(line.item)}<br><span class=how>{escape(line.how())} "
        f"[{escape(origin)}]</span><td class=n>{number(line.quantity.value)}"
        f"<td class=u>{escape(str(line.quantity.unit))}<td class=n>${price.usd.normalize():f}"
        f"<td class=n>{usd(line.amount)}</tr>"
    )


def _sources(bill: Bill) -> str:
    used = {line.price.source.name: line.price.source for line in bill.lines}
    items = []
    for each in used.values():
        text = f"{escape(each.name)}, {escape(each.date)}: {escape(each.title)}"
        link = f' <a href="{escape(each.url)}">{escape(each.url)}</a>' if each.url else ""
        items.append(f"<li>{text}{link}</li>")
    meaning = "A provider's own, B dated secondary, C recalled, user: yours"
    return f"<p>Confidence {bill.confidence} ({meaning}). Sources:</p><ul>{''.join(items)}</ul>"
