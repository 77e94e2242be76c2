"""A backfill of months: through the brokers, from segments in the bucket, or from Parquet."""

import marimo

app = marimo.App(width="medium", app_title="Spark backfill or broker replay?")


@app.cell
def _():
    from dataclasses import replace

    import marimo as mo

    from cost_model import plan, plots, scenario
    from cost_model.breakeven import break_even as find_break_even
    from cost_model.text import markdown, usd
    from cost_model.units import TB

    return TB, find_break_even, markdown, mo, plan, plots, replace, scenario, usd


@app.cell
def _(mo):
    mo.md("""
    # Spark backfill or broker replay?

    A new report needs the history again. It can be read by a consumer group through the brokers,
    by Spark from segment objects, or by Spark from the Parquet table, of which a job often needs
    a few columns only. Glue computes in each case; only the way there differs.
    """)
    return


@app.cell
def _(mo):
    size = mo.ui.slider(1, 1000, value=100, step=1, label="replayed a month, TB as stored")
    columns = mo.ui.slider(
        5, 100, value=30, step=5, label="share of a Parquet file that is read, %"
    )
    storage = mo.ui.dropdown(
        ["STANDARD", "STANDARD_IA", "GLACIER_IR"], value="STANDARD", label="storage class"
    )
    mo.vstack([size, columns, storage])
    return columns, size, storage


@app.cell
def _(columns, plan, replace, scenario, size, storage):
    through = scenario(
        name="through brokers",
        workload={"write": "100 MB/s", "compression": 4, "retention": "1 y"},
        tiering={"classes": storage.value},
        reads={"replay": f"{size.value} TB", "replay_from": "broker", "engine": "glue"},
    )

    def read_from(name, source, part):
        reads = replace(through.reads, replay_from=source, replay=through.reads.replay * part / 100)
        return replace(through, name=name, reads=reads)

    segments = read_from("Spark, segments", "segments", 100)
    parquet = read_from("Spark, Parquet", "parquet", columns.value)
    nothing = read_from("no backfill", "broker", 0)
    base = plan(nothing)
    plans = [through, segments, parquet]
    bills = [plan(each) for each in plans]
    return base, bills, parquet, through


@app.cell
def _(base, bills, markdown, mo, usd):
    rows = [["", "network", "store", "compute", "the backfill"]]
    for bill in bills:
        parts = [
            bill.group(name).amount - base.group(name).amount
            for name in ("network", "store", "compute")
        ]
        rows.append([bill.name, *map(usd, parts), usd(bill.total - base.total)])
    mo.md("What the backfill adds to the month:\n\n" + "\n".join(markdown(rows)))
    return


@app.cell
def _(bills, plots):
    plots.components(bills)
    return


@app.cell
def _(mo):
    mo.md("""
    ## When does the table pay for itself?

    The Parquet copy costs storage and conversion every month. Without it and with replays through
    the brokers on one side, with it and Spark on the other:
    """)
    return


@app.cell
def _(TB, find_break_even, parquet, plots, replace, through):
    bare = replace(through, name="no table", parquet=replace(through.parquet, enabled=False))
    curve = find_break_even(
        replace(parquet, name="table and Spark"), bare, path="reads.replay", low=TB, high=2000 * TB
    )
    plots.break_even(curve)
    return (curve,)


@app.cell
def _(TB, curve, mo):
    at = [f"{each / TB:,.0f} TB a month" for each in curve.crossings]
    mo.md(f"They meet at {', '.join(at)}." if at else "They do not meet in this range.")
    return


if __name__ == "__main__":
    app.run()
