"""What the cost commands do: read scenarios, call the cost model, print."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from cost_model import default_book
from cost_model import estimate as capacity
from cost_model.breakeven import break_even as find_break_even
from cost_model.diff import diff_markdown
from cost_model.growth import grow
from cost_model.limits import Limits
from cost_model.montecarlo import duel
from cost_model.montecarlo import montecarlo as draw_bills
from cost_model.optimise import optimise as find_optimum
from cost_model.plan import plan as price
from cost_model.policy import lifecycle as lifecycle_rules
from cost_model.presets import PRESETS, preset
from cost_model.prices import price_changes
from cost_model.read import as_dict, parse_input
from cost_model.sensitivity import tornado
from cost_model.units import DAY, parse_duration, parse_rate
from tierlog.cli import cost_views as views
from tierlog.cli.cost_scenarios import beside, book_of, checked, other_of, read


def plan(
    file: Path,
    *,
    sets: Sequence[str],
    explain: bool,
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenario = read(file, sets=sets, book=book)
        bill = price(scenario, book=book)
        if as_json:
            _print_json({"scenario": as_dict(scenario), "bill": bill.as_json()})
        else:
            views.show_bill(scenario, bill, book, explain=explain)
        if html is not None:
            from tierlog.cli.cost_pages import plan_page

            plan_page(html, scenario, bill, book)


def diff(old: Path, new: Path, *, prices: Path | None) -> None:
    with checked():
        book = book_of(prices)
        before, after = (read(each, sets=(), book=book) for each in (old, new))
        typer.echo(diff_markdown(before, after, book=book), nl=False)


def compare(
    files: Sequence[Path],
    *,
    presets: Sequence[str],
    sets: Sequence[str],
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenarios = [read(each, sets=sets, book=book) for each in files]
        names = presets or (PRESETS if len(files) == 1 else ())
        scenarios += [preset(name, scenarios[0]) for name in names]
        bills = [price(each, book=book) for each in scenarios]
        if as_json:
            _print_json([bill.as_json() for bill in bills])
        else:
            views.show_side_by_side(bills)
        if html is not None:
            from tierlog.cli.cost_pages import compare_page

            compare_page(html, bills)


def sensitivity(
    file: Path,
    *,
    inputs: Sequence[str],
    swing: float,
    sets: Sequence[str],
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenario = read(file, sets=sets, book=book)
        bars = tornado(scenario, paths=inputs, swing=swing, book=book)
        bill = price(scenario, book=book, check=False)
        if as_json:
            _print_json([asdict(each) for each in bars])
        else:
            views.show_tornado(bill.total, bars)
        if html is not None:
            from tierlog.cli.cost_pages import sensitivity_page

            sensitivity_page(html, bill, bars)


def montecarlo(
    file: Path,
    *,
    against: str | None,
    draws: int,
    seed: int,
    sets: Sequence[str],
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenario = read(file, sets=sets, book=book)
        if against is None:
            outcomes = [draw_bills(scenario, count=draws, seed=seed, book=book)]
        else:
            other = beside(scenario, other_of(against, book=book))
            outcomes = list(duel(scenario, other, count=draws, seed=seed, book=book))
        if as_json:
            _print_json(views.outcome_rows(outcomes))
        else:
            views.show_outcomes(outcomes, draws=draws, seed=seed)
        if html is not None:
            from tierlog.cli.cost_pages import montecarlo_page

            montecarlo_page(html, outcomes, draws=draws, seed=seed)


def break_even(
    file: Path,
    *,
    against: str,
    path: str,
    low: str,
    high: str,
    sets: Sequence[str],
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenario = read(file, sets=sets, book=book)
        curve = find_break_even(
            scenario,
            other_of(against, book=book),
            path=path,
            low=parse_input(path, low),
            high=parse_input(path, high),
            book=book,
        )
        if as_json:
            _print_json(asdict(curve))
        else:
            views.show_curve(curve)
        if html is not None:
            from tierlog.cli.cost_pages import curve_page

            curve_page(html, curve)


def growth(
    file: Path,
    *,
    years: int,
    yearly: float,
    drift: float,
    past_months: int,
    sets: Sequence[str],
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenario = read(file, sets=sets, book=book)
        grown = grow(
            scenario,
            months=12 * years,
            yearly_growth=yearly,
            yearly_price_drift=drift,
            past_months=past_months,
            book=book,
        )
        if as_json:
            _print_json({"usd": grown.usd.tolist(), "stored_bytes": grown.stored_bytes.tolist()})
        else:
            views.show_years(grown)
        if html is not None:
            from tierlog.cli.cost_pages import growth_page

            growth_page(html, scenario.name, grown)


def optimise(
    file: Path,
    *,
    times: Mapping[str, str | None],
    replay_rate: str | None,
    archives: bool,
    express: bool,
    lifecycle: Path | None,
    sets: Sequence[str],
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        scenario = read(file, sets=sets, book=book)
        bounds: dict[str, Any] = {
            name: parse_duration(text) for name, text in times.items() if text is not None
        }
        if replay_rate is not None:
            bounds["replay_rate"] = parse_rate(replay_rate)
        if archives:
            bounds = {"first_byte": None, "archives": True, **bounds}
        found = find_optimum(scenario, limits=Limits(express=express, **bounds), book=book)
        if lifecycle is not None and found.scenario is not None:
            lifecycle.write_text(json.dumps(lifecycle_rules(found.scenario), indent=2) + "\n")
        if as_json:
            _print_json(views.optimum_json(found))
        else:
            views.show_optimum(found)
        if html is not None:
            from tierlog.cli.cost_pages import optimum_page

            optimum_page(html, found)
    if found.scenario is None:
        raise typer.Exit(1)


def estimate(
    *,
    messages_per_day: float,
    message_bytes: float,
    groups: float,
    retention: str,
    replicas: int,
    brokers: int | None,
    as_json: bool,
) -> None:
    with checked():
        found = capacity.estimate(
            messages_s=messages_per_day / DAY,
            message_bytes=message_bytes,
            groups=groups,
            retention_s=parse_duration(retention),
            replicas=replicas,
            brokers=brokers,
        )
    if as_json:
        _print_json(asdict(found))
    else:
        views.show_capacity(found)


def prices(other: Path | None, *, as_json: bool) -> None:
    with checked():
        if other is None:
            rows = views.price_rows(default_book())
        else:
            changes = price_changes(default_book(), book_of(other))
            rows = views.change_rows(changes)
        views.show_rows(rows, as_json=as_json, none="no price differs")


def inputs(*, as_json: bool) -> None:
    views.show_rows(views.input_rows(), as_json=as_json, none="there are no inputs")


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, default=str))
