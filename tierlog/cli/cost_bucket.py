"""`tierlog cost actual` and `tierlog cost quote`: their options and help. Both read a bucket.

Light: the work is elsewhere.
"""

from typing import Annotated

import typer

from tierlog.cli.cost import Html, Prices, cost_app, cost_extra
from tierlog.cli.failure import told
from tierlog.cli.options import AsJson, ClusterId, Sets, StoreUrl

__all__ = ["cost_app"]

quote_app = typer.Typer(help="What something would cost, before it is done.", no_args_is_help=True)
cost_app.add_typer(quote_app, name="quote")

AsClass = Annotated[
    str,
    typer.Option(
        "--class",
        metavar="CLASS",
        help="Price objects as this storage class where the store names none, as a folder.",
    ),
]


@cost_app.command("actual")
def actual(
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only this one.", show_default=False)
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            show_default=False,
            help="A node: its requests so far, charged to topics and readers.",
        ),
    ] = None,
    as_class: AsClass = "STANDARD",
    explain: Annotated[
        bool, typer.Option("--explain", "-e", help="Every line with its arithmetic and source.")
    ] = False,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    sets: Sets = None,
    prices: Prices = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Price what lies in the bucket: every object, by what it is there for, topic and owner."""
    with told(), cost_extra():
        from tierlog.cli import cost_actual
        from tierlog.cli.bucket import settings_of

        cost_actual.run(
            settings_of(store, sets or ()),
            cluster_id=cluster_id,
            topic=topic,
            http=http,
            as_class=as_class,
            explain=explain,
            prices=prices,
            html=html,
            as_json=as_json,
        )


@quote_app.command("replay")
def replay(
    topic: Annotated[str, typer.Option(metavar="TOPIC", show_default=False)],
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="As 2024-03-01 or 2d.", show_default="the beginning"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Exclusive.", show_default="the end")
    ] = None,
    source: Annotated[
        str, typer.Option("--from", metavar="broker|segments", help="Who reads the bucket.")
    ] = "broker",
    zones: Annotated[
        int, typer.Option(min=1, help="Of the brokers: consumers elsewhere pay for the way.")
    ] = 3,
    rate: Annotated[str, typer.Option(metavar="RATE", help="At which it is read.")] = "100 MB/s",
    max_usd: Annotated[
        float | None, typer.Option(min=0, help="Exit code 1 where it would cost more.")
    ] = None,
    as_class: AsClass = "STANDARD",
    explain: Annotated[
        bool, typer.Option("--explain", "-e", help="Every line with its arithmetic and source.")
    ] = False,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    sets: Sets = None,
    prices: Prices = None,
    as_json: AsJson = False,
) -> None:
    """Bytes, GETs, dollars and hours of reading a topic's history again."""
    with told(), cost_extra():
        from tierlog.cli import cost_quote
        from tierlog.cli.bucket import settings_of

        cost_quote.run(
            settings_of(store, sets or ()),
            cluster_id=cluster_id,
            topic=topic,
            since=since,
            until=until,
            terms=cost_quote.Terms(source=source, zones=zones, rate=rate, as_class=as_class),
            max_usd=max_usd,
            explain=explain,
            prices=prices,
            as_json=as_json,
        )
