"""Options that several commands have. Light: `--help` needs them."""

from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_HTTP = "127.0.0.1:8080"

Bootstrap = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar="TIERLOG_BOOTSTRAP", help="A broker to ask first, or several."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        show_default=False,
        help="file:///path or s3://bucket/prefix.  [default: the folder ./tierlog-data-store]",
    ),
]
ClusterId = Annotated[
    str | None,
    typer.Option("--cluster-id", metavar="ID", help="Which cluster, if the store holds several."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, as s3.endpoint; repeatable."),
]
