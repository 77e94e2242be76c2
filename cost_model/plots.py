"""Plots of bills, one altair spec each: for notebooks as they are, for pages and files as SVG.

Needs altair, and vl-convert for `svg` and `png`: the extra `report`. Colours stand for the same
component everywhere. Every figure that a plot shows is in a table beside it: a plot is for the eye.
"""

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import altair as alt
import numpy as np

from cost_model.bill import Bill
from cost_model.breakeven import Curve
from cost_model.fields import Kind
from cost_model.growth import Years
from cost_model.montecarlo import Outcome
from cost_model.read import kind_of
from cost_model.sensitivity import Swing
from cost_model.text import usd
from cost_model.units import DAY, GB, HOUR, MINUTE, TB, YEAR

WIDTH = 560
COLOURS = {
    "brokers": "#4c78a8",
    "disks": "#f58518",
    "store": "#54a24b",
    "network": "#e45756",
    "compute": "#b279a2",
    "keys": "#9d755d",
    "hardware": "#72b7b2",
    "operations": "#bab0ac",
    "referenced": "#54a24b",
    "garbage": "#f58518",
    "orphans": "#e45756",
    "metadata": "#4c78a8",
    "unjudged": "#9d755d",
    "other": "#d9d9d9",
}
"""By component of a bill; the last but one five are those of a counted bucket."""
PAIR = ["#4c78a8", "#e45756"]
BARS_MAX = 12
BINS = 40
MONEY = "format(datum.value, datum.value == 0 ? '$d' : abs(datum.value) < 1 ? '$~r' : '$~s')"
"""Of axes: $0, $0.05, $10k."""
OTHER = "other"
LEAST = 0.005
"""Components below this share of the whole are one: nobody can see them apart."""
SWING_LEAST = 0.002
"""Inputs that move the bill less than this share of it have no bar."""
ROOM = 1.15
"""Axes go on behind the longest bar, so that its figure has a place."""
WIDE = 10
"""Values that differ by more than this factor get a logarithmic axis: on a linear one the small
ones lie on the zero line."""
DECADES_MAX = 4
CLOSE = 3
"""A crossing is shown with so many times less and more of the input beside it."""
NEAR_LEAST = 8
"""Points that a line must have."""
PADDING = {"left": 48, "right": 24, "top": 6, "bottom": 6}
"""Names are measured in one font and shown in whatever the reader has: others are up to a sixth
wider, and would be cut off at the border of the picture."""
DOLLARS = "US dollars a month"
SCALES = {
    Kind.DURATION: ((YEAR, "years"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")),
    Kind.SIZE: ((TB, "TB"), (GB, "GB"), (1e6, "MB")),
    Kind.RATE: ((1e6, "MB/s"), (1e3, "kB/s")),
}


def components(bills: Sequence[Bill]) -> Any:
    """Monthly cost by component, a stacked bar for each plan."""
    rows = _with_other(
        [
            {"plan": bill.name, "component": group.name, "usd": float(group.amount)}
            for bill in bills
            for group in bill.groups
        ],
        key="plan",
    )
    totals = [
        {"plan": bill.name, "usd": float(bill.total), "said": _dollars(bill.total)}
        for bill in bills
    ]
    order = [bill.name for bill in bills]
    names = _present(rows)
    y = alt.Y("plan:N", title=None, sort=order, axis=alt.Axis(labelLimit=220))
    bars = (
        _chart(rows)
        .mark_bar()
        .encode(
            x=_with_room(max(float(bill.total) for bill in bills)),
            y=y,
            color=_colour(names),
            order=alt.Order("at:Q"),
            tooltip=["plan:N", "component:N", alt.Tooltip("usd:Q", format="$,.2f")],
        )
        .transform_calculate(at=f"indexof({names!r}, datum.component)")
    )
    labels = _chart(totals).mark_text(align="left", dx=4).encode(x="usd:Q", y=y, text="said:N")
    return _titled(bars + labels, "What a month costs, by component", height=alt.Step(34))


def tornado(base: float, bars: Sequence[Swing]) -> Any:
    """How far each input moves the bill, the widest on top."""
    shown = [each for each in bars if float(each.span) >= SWING_LEAST * base][:BARS_MAX]
    rows = [
        {"input": _ends(each), "end": end, "from": base, "to": float(at), "value": value}
        for each in shown
        for end, value, at in _longest_first(each)
    ]
    order = [_ends(each) for each in shown]
    x = alt.X("from:Q", title=DOLLARS, axis=_money(), scale=alt.Scale(zero=False))
    chart = (
        _chart(rows)
        .mark_bar(height=13)
        .encode(
            x=x,
            x2="to:Q",
            y=alt.Y("input:N", title=None, sort=order, axis=alt.Axis(labelLimit=400)),
            color=alt.Color(
                "end:N",
                title=None,
                scale=alt.Scale(domain=["at its low end", "at its high end"], range=PAIR),
                legend=_legend(),
            ),
            tooltip=["input:N", "value:N", alt.Tooltip("to:Q", format="$,.2f")],
        )
    )
    now = _chart([{"usd": base}]).mark_rule(color="black").encode(x="usd:Q")
    title = f"What moves the bill of {_dollars(base)}, one input at a time"
    return _titled(chart + now, title, height=alt.Step(22))


def _longest_first(swing: Swing) -> list[tuple[str, str, Decimal]]:
    """Where both ends lie on one side of the bill, the shorter bar is drawn over the longer."""
    low, high = ("at its low end", swing.low), ("at its high end", swing.high)
    ends = [(*low, swing.at_low), (*high, swing.at_high)]
    return sorted(ends, key=lambda end: -abs(end[2] - swing.base))


def break_even(curve: Curve) -> Any:
    """Two plans along an input, and where they meet. If they do, a second picture has what one
    costs more than the other around there: lines that cross flatly lie on each other."""
    divisor, unit = _scale(curve.path, curve.at)
    rows = [
        {"at": at / divisor, "plan": name, "usd": value}
        for name, values in zip(curve.names, curve.usd, strict=True)
        for at, value in zip(curve.at, values, strict=True)
    ]
    along = f"{curve.path}, {unit}" if unit else curve.path
    lines = (
        _chart(rows)
        .mark_line(strokeWidth=2.5)
        .encode(
            x=_spread(alt.X, rows, "at", title=along, axis=_plain_axis()),
            y=_spread(alt.Y, rows, "usd", title=DOLLARS, axis=_money()),
            color=_plans(),
        )
    )
    meets = [at / divisor for at in curve.crossings]
    rule = _chart([{"at": at} for at in meets]).mark_rule(strokeDash=[4, 3], color="#555")
    said = "they cost the same" if curve.is_level else _meeting(curve)
    title = f"{' or '.join(curve.names)}: {said}"
    both = _titled(lines + rule.encode(x="at:Q"), title, height=280)
    return both & _difference(curve) if curve.crossings else both


def _difference(curve: Curve) -> Any:
    """What the first costs more than the second, close to where they meet."""
    places = _around(curve)
    divisor, unit = _scale(curve.path, [curve.at[at] for at in places])
    one, other = curve.names
    points = [(curve.at[at] / divisor, curve.usd[0][at] - curve.usd[1][at]) for at in places]
    points = sorted([*points, *((at / divisor, 0.0) for at in curve.crossings)])
    rows = [
        {"at": at, "usd": part, "plan": name}
        for at, usd_more in points
        for name, part in ((one, min(usd_more, 0.0)), (other, max(usd_more, 0.0)))
    ]
    along = f"{curve.path}, {unit}" if unit else curve.path
    areas = (
        _chart(rows)
        .mark_area(fillOpacity=0.6)
        .encode(
            x=_spread(alt.X, rows, "at", title=along, axis=_plain_axis()),
            y=alt.Y("usd:Q", title="US dollars more", axis=_money(), stack=None),
            color=_plans(),
        )
    )
    crossing = [{"at": at / divisor} for at in curve.crossings]
    rule = _chart(crossing).mark_rule(strokeDash=[4, 3], color="#555").encode(x="at:Q")
    title = f"What {one} costs more than {other} around there; the colour is the cheaper one's"
    return _titled(areas + rule, title, height=160)


def _around(curve: Curve) -> list[int]:
    """Places of the curve from a third of the first crossing to three times the last."""
    low, high = min(curve.crossings) / CLOSE, max(curve.crossings) * CLOSE
    near = [at for at, value in enumerate(curve.at) if low <= value <= high]
    return near if len(near) >= NEAR_LEAST else list(range(len(curve.at)))


def _plain_axis() -> Any:
    return alt.Axis(format=",~r", grid=False, labelOverlap=True)


def _meeting(curve: Curve) -> str:
    """In units that fit the crossings, not the range."""
    if not curve.crossings:
        return "they do not meet in this range"
    divisor, unit = _scale(curve.path, [min(curve.crossings), max(curve.crossings)])
    meets = (_round(at / divisor) for at in curve.crossings)
    return f"they meet at {', '.join(meets)} {unit}".rstrip()


def _spread(
    channel: Any, rows: Sequence[dict[str, Any]], name: str, *, title: str, axis: Any
) -> Any:
    """Logarithmic where the values are far apart, and the axis says so."""
    least, most = (pick(row[name] for row in rows) for pick in (min, max))
    is_wide = 0 < least * WIDE < most
    scale = alt.Scale(type="log", nice=False) if is_wide else alt.Scale(nice=name == "usd")
    if is_wide:
        axis.values = ticks = _ticks(least, most)
        axis.tickCount = len(ticks)  # Fewer would drop some of them.
        axis.labelFlush = False  # The last label would be pushed into the one before.
    return channel(
        f"{name}:Q", title=title + (" (logarithmic)" if is_wide else ""), scale=scale, axis=axis
    )


def _ticks(least: float, most: float) -> list[float]:
    """1, 2, 5, 10, ... on a logarithmic axis; over many decades only their beginnings."""
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = (1, 2, 5) if math.log10(most / least) < DECADES_MAX else (1,)
    return [n * 10.0**at for at in decades for n in steps if least <= n * 10.0**at <= most]


def growth(grown: Years) -> Any:
    """Month by month, stacked by component."""
    names = [group.name for group in grown.bill.groups]
    # A bill holds from the first day of its month to the last: the last month stands there twice.
    places = [*range(len(grown.usd)), len(grown.usd) - 1]
    rows = _with_other(
        [
            {"year": at / 12, "component": name, "usd": float(grown.group(name)[month])}
            for name in names
            for at, month in enumerate(places)
        ],
        key="year",
    )
    years = alt.X("year:Q", title="years from now", axis=alt.Axis(format="~r", grid=False))
    chart = (
        _chart(rows)
        .mark_area(interpolate="step-after")
        .encode(
            x=years,
            y=alt.Y("usd:Q", title=DOLLARS, axis=_money(), stack="zero"),
            color=_colour(_present(rows)),
            order=alt.Order("at:Q"),
        )
        .transform_calculate(at=f"indexof({_present(rows)!r}, datum.component)")
    )
    return _titled(chart, f"Month by month, {_dollars(grown.total)} in all", height=280)


def histogram(outcomes: Sequence[Outcome]) -> Any:
    """How draws of a Monte Carlo spread: the share of them in each bin."""
    low = min(float(each.usd.min()) for each in outcomes)
    high = max(float(each.usd.max()) for each in outcomes)
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    rows = [
        {"plan": each.name, "usd": float(edge), "share": share}
        for each in outcomes
        for edge, share in zip(edges, _shares(each, edges), strict=True)
    ]
    chart = (
        _chart(rows)
        .mark_area(interpolate="step-after", line=True, fillOpacity=0.25)
        .encode(
            x=alt.X("usd:Q", title=DOLLARS, axis=_money(), scale=_close()),
            y=alt.Y("share:Q", title="share of draws", stack=None, axis=alt.Axis(format="~%")),
            color=_plans(),
        )
    )
    draws = len(outcomes[0].usd)
    return _titled(chart, f"How {draws:,} draws of the bill spread", height=240)


def _shares(outcome: Outcome, edges: Any) -> list[float]:
    """Of the draws, from each edge to the next; none lie behind the last."""
    counted = np.histogram(outcome.usd, edges)[0] / len(outcome.usd)
    return [*counted.tolist(), 0.0]


def amounts(parts: Sequence[tuple[str, float]], *, what: str) -> Any:
    """Single bars by name: topics, owners, readers."""
    rows = [{"name": name, "usd": value, "said": usd(value)} for name, value in parts[:BARS_MAX]]
    y = alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=240))
    base = _chart(rows).encode(x=_with_room(max((value for _, value in parts), default=0.0)), y=y)
    labels = base.mark_text(align="left", dx=4).encode(text="said:N")
    left = f"; {len(parts) - BARS_MAX} more are smaller" if len(parts) > BARS_MAX else ""
    title = f"What a month costs, by {what}{left}"
    return _titled(base.mark_bar(color=PAIR[0]) + labels, title, height=alt.Step(24))


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _chart(rows: Sequence[dict[str, Any]]) -> Any:
    data: Any = alt.Data  # Its stub has no types.
    return alt.Chart(data(values=list(rows)))


def _titled(chart: Any, words: str, *, height: Any) -> Any:
    title = alt.Title(words, anchor="start", fontSize=13, fontWeight="bold", offset=8)
    return chart.properties(title=title, width=WIDTH, height=height)


def _with_room(most: float) -> Any:
    """Dollars along bars that have their figure at the end."""
    scale = alt.Scale(domain=[0, most * ROOM], nice=False) if most > 0 else alt.Scale()
    return alt.X("usd:Q", title=DOLLARS, axis=_money(), scale=scale)


def _plans() -> Any:
    scale = alt.Scale(range=PAIR)
    return alt.Color("plan:N", title=None, sort=None, scale=scale, legend=_legend())


def _dollars(amount: Decimal | float) -> str:
    return usd(amount, cents=amount < 1000)


def _ends(swing: Swing) -> str:
    return f"{swing.path}: {swing.low} to {swing.high}"


def _with_other(rows: list[dict[str, Any]], *, key: str) -> list[dict[str, Any]]:
    """Rows of components that can hardly be seen become one row for each key."""
    sums: dict[str, float] = {}
    for row in rows:
        sums[row["component"]] = sums.get(row["component"], 0.0) + row["usd"]
    small = {name for name, value in sums.items() if value < LEAST * sum(sums.values())}
    kept = [row for row in rows if row["component"] not in small]
    rest: dict[Any, float] = {}
    for row in rows:
        if row["component"] in small:
            rest[row[key]] = rest.get(row[key], 0.0) + row["usd"]
    return kept + [{key: at, "component": OTHER, "usd": value} for at, value in rest.items()]


def _present(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Components that cost something, in the order of the colours."""
    found = {row["component"] for row in rows if row["usd"]}
    return [name for name in COLOURS if name in found]


def _colour(names: list[str]) -> Any:
    scale = alt.Scale(domain=names, range=[COLOURS[name] for name in names])
    return alt.Color("component:N", title=None, scale=scale, legend=_legend())


def _legend() -> Any:
    return alt.Legend(orient="top", labelLimit=260)


def _money() -> Any:
    return alt.Axis(labelExpr=MONEY, tickCount=6)


def _close() -> Any:
    return alt.Scale(zero=False, nice=True)


def _scale(path: str, at: Sequence[float]) -> tuple[float, str]:
    """A unit in which the middle of the range is a number that people say."""
    kind = Kind.NUMBER if path.startswith("prices.") else kind_of(path)
    middle = (at[0] * at[-1]) ** 0.5 if at[0] > 0 else at[-1] / 2
    steps = SCALES.get(kind, ())
    return next(((f, name) for f, name in steps if middle >= f), steps[-1] if steps else (1.0, ""))


def svg(chart: Any, *, name: str = "plot") -> str:
    """Alone or inside of a page: ids get the name before them, so that two plots do not meet."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(_framed(chart).to_dict())
    text = re.sub(r'\bid="', f'id="{name}-', text)
    return re.sub(r"url\(#", f"url(#{name}-", text)


def png(chart: Any, *, scale: float = 2.0) -> bytes:
    import vl_convert

    made: bytes = vl_convert.vegalite_to_png(_framed(chart).to_dict(), scale=scale)
    return made


def _framed(chart: Any) -> Any:
    return chart.configure(
        font="Helvetica, Arial, sans-serif", background="white", padding=PADDING
    ).configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
