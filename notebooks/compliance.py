"""Seven years of a topic that the law wants kept: what grows, and what to do about it."""

import marimo

app = marimo.App(width="medium", app_title="Seven years of a compliance topic")


@app.cell
def _():
    from dataclasses import replace
    from pathlib import Path

    import marimo as mo

    from cost_model import load, plan, plots
    from cost_model.growth import grow
    from cost_model.limits import Limits
    from cost_model.montecarlo import duel
    from cost_model.optimise import optimise
    from cost_model.policy import lifecycle, topic_settings
    from cost_model.presets import preset
    from cost_model.text import markdown, side_by_side, usd

    example = Path(__file__).parents[1] / "examples" / "cost" / "compliance.yaml"
    return (
        Limits,
        duel,
        example,
        grow,
        lifecycle,
        load,
        markdown,
        mo,
        optimise,
        plan,
        plots,
        preset,
        replace,
        side_by_side,
        topic_settings,
        usd,
    )


@app.cell
def _(example, load, mo):
    given = load(example)
    yearly = mo.ui.slider(0, 100, value=20, step=5, label="growth of writes, % a year")
    years = mo.ui.slider(1, 15, value=10, step=1, label="years")
    mo.vstack(
        [
            mo.md("""
    # Seven years of a compliance topic

    `examples/cost/compliance.yaml`: 20 MB/s that compress four times, kept for seven years, a
    month in STANDARD and then in Glacier Instant Retrieval, with a Parquet table beside the log.
    """),
            yearly,
            years,
        ]
    )
    return given, yearly, years


@app.cell
def _(given, grow, mo, usd, years, yearly):
    grown = grow(given, months=12 * years.value, yearly_growth=yearly.value / 100)
    mo.md(
        f"From an empty bucket, the first month costs {usd(grown.usd[0], cents=False)}, the last "
        f"{usd(grown.usd[-1], cents=False)}, all of them {usd(grown.total, cents=False)}."
    )
    return (grown,)


@app.cell
def _(grown, plots):
    plots.growth(grown)
    return


@app.cell
def _(mo):
    mo.md("""
    ## What would be cheaper?

    With one second for the first byte of a cold read; and the same without the Parquet table,
    which keeps everything a second time.
    """)
    return


@app.cell
def _(Limits, given, optimise, plan, replace):
    best = optimise(given, limits=Limits(first_byte=1.0))
    assert best.scenario is not None
    bare = replace(
        best.scenario,
        name="the same, no table",
        parquet=replace(given.parquet, enabled=False),
        reads=replace(best.scenario.reads, replay_from="segments"),
    )
    named = replace(best.scenario, name="cheapest policy")
    bills = [plan(given), plan(named), plan(bare)]
    return best, bills


@app.cell
def _(bills, plots):
    plots.components(bills)
    return


@app.cell
def _(bills, markdown, mo, side_by_side):
    mo.md("\n".join(markdown(side_by_side(bills))))
    return


@app.cell
def _(best, lifecycle, mo, topic_settings):
    import json

    settings = "\n".join(f"{name}={value}" for name, value in topic_settings(best.scenario).items())
    rules = json.dumps(lifecycle(best.scenario), indent=2)
    mo.md(
        f"Topic settings and S3 lifecycle rules:\n\n```\n{settings}\n```\n\n```json\n{rules}\n```"
    )
    return


@app.cell
def _(mo):
    mo.md("""
    ## How sure is that?

    Writes, compression, replays and the price of the archive are not known exactly. Ten thousand
    draws, beside Kafka with tiering under the same draws.
    """)
    return


@app.cell
def _(duel, given, mo, preset):
    outcomes = duel(given, preset("kafka-tiered", given))
    ours, theirs = outcomes
    mo.md(
        f"P10, P50, P90 of tierlog: {ours.percentile(10):,.0f}, {ours.percentile(50):,.0f}, "
        f"{ours.percentile(90):,.0f} dollars a month. It costs less in "
        f"{ours.beats(theirs):.1%} of the draws."
    )
    return (outcomes,)


@app.cell
def _(outcomes, plots):
    plots.histogram(outcomes)
    return


if __name__ == "__main__":
    app.run()
