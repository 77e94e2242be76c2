"""`tierlog store`: its commands, their options and their help. Light: the work is elsewhere.

Other commands that look into the bucket join `store_app`.
"""

from typing import Annotated

import typer

from tierlog.cli.failure import told
from tierlog.cli.formats import Format
from tierlog.cli.options import AsJson, ClusterId, Sets, StoreUrl

store_app = typer.Typer(help="Look into the object store, without a broker.", no_args_is_help=True)

Path = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="A topic, topic/partition, or as it stands in the bucket.",
    ),
]
Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        show_default=False,
        help="topic/partition/HEAD, topic/partition/OFFSET, STATE, format.json, or a whole key; "
        "one that begins with - takes a / before it.",
    ),
]


@store_app.command("ls")
def list_store(
    path: Path = "",
    long: Annotated[
        bool, typer.Option("--long", "-l", help="With sizes; reads every partition's HEAD.")
    ] = False,
    keys: Annotated[
        bool, typer.Option("--keys", help="The objects below the path, as the store lists them.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Stop after so many lines.")
    ] = None,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    sets: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
) -> None:
    """List clusters, topics, partitions or segments."""
    with told():
        from tierlog.cli.bucket import settings_of, with_bucket
        from tierlog.cli.store_ls import Listing

        listing = Listing(long=long, keys=keys, limit=limit, as_json=as_json)
        with_bucket(
            settings_of(store, sets or ()), cluster_id, lambda view: listing.run(view, path)
        )


@store_app.command("stat")
def stat_object(
    key: Key,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Show what an object says of itself: a segment's footer and sections, a manifest's fields."""
    with told():
        from tierlog.cli.bucket import settings_of, with_bucket
        from tierlog.cli.store_stat import stat

        with_bucket(
            settings_of(store, sets or ()),
            cluster_id,
            lambda view: stat(view, key, as_json=as_json),
        )


@store_app.command("cat")
def print_object(
    key: Key,
    records: Annotated[
        bool, typer.Option("--records", help="Of a segment, its records and not its batches.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes, to a pipe or a file.")] = False,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="Print keys, and this between key and value."),
    ] = None,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers too.")] = False,
    meta: Annotated[
        bool, typer.Option("--meta", help="Print partition, offset and time too.")
    ] = False,
    key_format: Annotated[Format, typer.Option(help="How to print keys.")] = Format.UTF8,
    value_format: Annotated[Format, typer.Option(help="How to print values.")] = Format.UTF8,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    sets: Sets = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per batch or record and line.")
    ] = False,
) -> None:
    """Print an object: manifests as JSON, segments as batches or records."""
    with told():
        from tierlog.cli.bucket import settings_of, with_bucket
        from tierlog.cli.lines import LineSettings
        from tierlog.cli.store_cat import Cat

        cat = Cat(
            records=records,
            raw=raw,
            lines=LineSettings(
                as_json=as_json,
                key_separator=key_separator,
                headers=headers,
                meta=meta,
                key_format=key_format,
                value_format=value_format,
            ),
        )
        with_bucket(settings_of(store, sets or ()), cluster_id, lambda view: cat.run(view, key))
