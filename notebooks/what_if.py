"""What a month costs: move the sliders, and see which part of the bill moves."""

import marimo

app = marimo.App(width="medium", app_title="What does a month cost?")


@app.cell
def _():
    import marimo as mo

    from cost_model import plan, plots, scenario
    from cost_model.breakeven import break_even as find_break_even
    from cost_model.presets import PRESETS, preset
    from cost_model.read import show_input_briefly
    from cost_model.sensitivity import tornado as swings
    from cost_model.text import markdown, side_by_side
    from cost_model.units import DAY

    return (
        DAY,
        PRESETS,
        find_break_even,
        markdown,
        mo,
        plan,
        plots,
        preset,
        scenario,
        show_input_briefly,
        side_by_side,
        swings,
    )


@app.cell
def _(mo):
    mo.md("""
    # What does a month cost?

    A topic is written, kept for a while, read by consumer groups, and now and then replayed. The
    same workload is priced on tierlog, on self-run Kafka with and without tiering, and on MSK.
    """)
    return


@app.cell
def _(mo):
    write = mo.ui.slider(1, 500, value=30, step=1, label="written, MB/s")
    days = mo.ui.slider(1, 365, value=7, step=1, label="kept, days")
    groups = mo.ui.slider(0, 10, value=3, step=1, label="groups that read all of it")
    replay = mo.ui.slider(0, 500, value=10, step=5, label="replayed a month, TB")
    mo.vstack([write, days, groups, replay])
    return days, groups, replay, write


@app.cell
def _(PRESETS, days, groups, plan, preset, replay, scenario, write):
    ours = scenario(
        name="tierlog",
        workload={
            "write": f"{write.value} MB/s",
            "retention": f"{days.value} d",
            "groups": groups.value,
        },
        reads={"replay": f"{replay.value} TB"},
    )
    bills = [plan(ours), *(plan(preset(name, ours)) for name in PRESETS)]
    return bills, ours


@app.cell
def _(bills, plots):
    plots.components(bills)
    return


@app.cell
def _(bills, markdown, mo, side_by_side):
    mo.md("\n".join(markdown(side_by_side(bills))))
    return


@app.cell
def _(mo):
    mo.md("""
    Tiering takes the disks off the bill. What is left is mostly bytes that cross zones, the same
    on every self-run system; MSK does not bill replication. `network.follower_fetch` and
    `network.zone_aware_produce` then save more than any storage class could.

    ## Which input moves it most?
    """)
    return


@app.cell
def _(bills, ours, plots, swings):
    plots.tornado(float(bills[0].total), swings(ours))
    return


@app.cell
def _(mo):
    mo.md("""
    ## From which retention on does the object store pay?

    Against Kafka that keeps everything on its brokers' disks.
    """)
    return


@app.cell
def _(DAY, PRESETS, find_break_even, ours):
    curve = find_break_even(
        ours, PRESETS["kafka"], path="workload.retention", low=DAY / 24, high=90 * DAY
    )
    return (curve,)


@app.cell
def _(curve, plots):
    plots.break_even(curve)
    return


@app.cell
def _(curve, mo, show_input_briefly):
    ends = [show_input_briefly(curve.path, at) for at in (curve.at[0], curve.at[-1])]
    from_there = [show_input_briefly(curve.path, at) for at in curve.crossings]
    mo.md(
        f"They meet at {', '.join(from_there)}."
        if from_there
        else f"From {ends[0]} to {ends[1]}, {curve.cheaper_at(0)} costs less at every retention."
    )
    return


if __name__ == "__main__":
    app.run()
