"""`tierlog cost ...`: the commands, their options and their help. Needs no broker and no bucket."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tierlog.cli.failure import Refused, told

cost_app = typer.Typer(
    help="What a policy costs, each figure with its source.", no_args_is_help=True
)

File = Annotated[
    Path,
    typer.Option("--file", "-f", metavar="FILE.yaml", help="The scenario.", show_default=False),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="INPUT=VALUE",
        help="Change an input, as workload.write=30MB/s; repeatable.",
    ),
]
Prices = Annotated[
    Path | None, typer.Option("--prices", metavar="FILE.json", help="Another price book.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Against = Annotated[
    str,
    typer.Option(
        metavar="FILE|PRESET", help="Another scenario, or kafka, kafka-tiered, msk-tiered."
    ),
]

Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE.html", help="Write a page that works offline, too."),
]

EXTRA = {"numpy": "cost", "yaml": "cost", "altair": "report", "vl_convert": "report"}
"""Which extra brings it; a plain installation lacks them."""


@contextmanager
def cost_extra() -> Iterator[None]:
    """Says what to install where the cost model cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        what = "the cost model needs" if EXTRA[error.name] == "cost" else "a page needs"
        raise Refused(
            f"{what} {error.name}; install it with: pip install 'tierlog[{EXTRA[error.name]}]'"
        ) from None


@cost_app.command("plan")
def plan(
    file: File,
    sets: Sets = None,
    explain: Annotated[
        bool, typer.Option("--explain", "-e", help="Every line with its arithmetic and source.")
    ] = False,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Price a scenario: what a steady month costs."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.plan(
            file, sets=sets or (), explain=explain, prices=prices, html=html, as_json=as_json
        )


@cost_app.command("diff")
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD.yaml", show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW.yaml", show_default=False)],
    prices: Prices = None,
) -> None:
    """What a change of scenario costs, as Markdown for a pull request."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.diff(old, new, prices=prices)


@cost_app.command("compare")
def compare(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.yaml...", show_default=False)],
    presets: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="The first workload on kafka, kafka-tiered or msk-tiered; repeatable. "
            "All of them where there is one file and no preset.",
        ),
    ] = None,
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Scenarios side by side, self-run Kafka among them."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.compare(
            files, presets=presets or (), sets=sets or (), prices=prices, html=html, as_json=as_json
        )


@cost_app.command("sensitivity")
def sensitivity(
    file: File,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="INPUT", help="Only this one; repeatable."),
    ] = None,
    swing: Annotated[
        float, typer.Option(metavar="PERCENT", min=0, max=100, help="Where no range is given.")
    ] = 20,
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Which input moves the bill most, one at a time."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.sensitivity(
            file,
            inputs=inputs or (),
            swing=swing / 100,
            sets=sets or (),
            prices=prices,
            html=html,
            as_json=as_json,
        )


@cost_app.command("montecarlo")
def montecarlo(
    file: File,
    against: Annotated[
        str | None,
        typer.Option(metavar="FILE|PRESET", help="Who costs less, draw by draw, and how often."),
    ] = None,
    draws: Annotated[int, typer.Option(min=100, max=1_000_000, help="How many.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same answer.")] = 1,
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """The bill under the scenario's `uncertainty`: P10, P50, P90."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.montecarlo(
            file,
            against=against,
            draws=draws,
            seed=seed,
            sets=sets or (),
            prices=prices,
            html=html,
            as_json=as_json,
        )


@cost_app.command("break-even")
def break_even(
    file: File,
    against: Against,
    path: Annotated[
        str, typer.Option("--input", metavar="INPUT", help="As workload.retention.")
    ] = "workload.retention",
    low: Annotated[str, typer.Option("--from", metavar="VALUE", help="Lower end.")] = "1 h",
    high: Annotated[str, typer.Option("--to", metavar="VALUE", help="Upper end.")] = "7 y",
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Where, along an input, two plans cost the same."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.break_even(
            file,
            against=against,
            path=path,
            low=low,
            high=high,
            sets=sets or (),
            prices=prices,
            html=html,
            as_json=as_json,
        )


@cost_app.command("growth")
def growth(
    file: File,
    years: Annotated[int, typer.Option(min=1, max=50)] = 5,
    yearly: Annotated[
        float, typer.Option("--growth", metavar="PERCENT", min=-99, help="Of writes, a year.")
    ] = 0,
    drift: Annotated[
        float, typer.Option("--price-drift", metavar="PERCENT", min=-99, help="Of prices, a year.")
    ] = 0,
    past: Annotated[
        float, typer.Option(metavar="YEARS", min=0, help="History that the bucket has already.")
    ] = 0,
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Month by month over years, from an empty bucket."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.growth(
            file,
            years=years,
            yearly=yearly / 100,
            drift=drift / 100,
            past_months=round(past * 12),
            sets=sets or (),
            prices=prices,
            html=html,
            as_json=as_json,
        )


@cost_app.command("optimise")
def optimise(
    file: File,
    first_byte: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Of a cold read, p99, as 500ms. 1 s unless archives are allowed.",
            show_default=False,
        ),
    ] = None,
    archives: Annotated[
        bool,
        typer.Option(
            "--archives", help="Allow classes that tierlog cannot read without a restore by hand."
        ),
    ] = False,
    restore: Annotated[
        str | None, typer.Option(metavar="TIME", help="To refill a lost broker's disk.")
    ] = None,
    erasure: Annotated[
        str | None, typer.Option(metavar="TIME", help="To answer a request for erasure.")
    ] = None,
    lag: Annotated[
        str, typer.Option(metavar="TIME", help="Consumers less behind read local disk.")
    ] = "10 min",
    replay_rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="At which a partition must be replayable.")
    ] = None,
    express: Annotated[
        bool, typer.Option("--express/--no-express", help="Whether one-zone Express may be used.")
    ] = True,
    lifecycle: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the S3 lifecycle rules here.")
    ] = None,
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """The cheapest policy that keeps the limits, with topic settings and S3 lifecycle rules."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.optimise(
            file,
            times={"first_byte": first_byte, "restore": restore, "erasure": erasure, "lag": lag},
            replay_rate=replay_rate,
            archives=archives,
            express=express,
            lifecycle=lifecycle,
            sets=sets or (),
            prices=prices,
            html=html,
            as_json=as_json,
        )


@cost_app.command("estimate")
def estimate(
    messages_per_day: Annotated[float, typer.Option(min=0, help="Mean.", show_default=False)],
    message_bytes: Annotated[float, typer.Option(min=0, help="Mean size.")] = 1000,
    groups: Annotated[float, typer.Option(min=0, help="That read everything.")] = 1,
    retention: Annotated[str, typer.Option(metavar="TIME")] = "7 d",
    replicas: Annotated[int, typer.Option(min=1)] = 3,
    brokers: Annotated[
        int | None, typer.Option(min=1, help="Else by peak x replicas / 200 MB/s.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Capacity from messages: rates, storage and brokers."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.estimate(
            messages_per_day=messages_per_day,
            message_bytes=message_bytes,
            groups=groups,
            retention=retention,
            replicas=replicas,
            brokers=brokers,
            as_json=as_json,
        )


@cost_app.command("prices")
def prices(
    diff: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Only what differs in another book.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The price book: every price with source, date and confidence."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.prices(diff, as_json=as_json)


@cost_app.command("inputs")
def inputs(as_json: AsJson = False) -> None:
    """Every input of a scenario, its default and the reason for it."""
    with told(), cost_extra():
        from tierlog.cli import cost_run

        cost_run.inputs(as_json=as_json)
