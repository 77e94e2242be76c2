"""The runtime that drives log-backed state machines: groups now, transactions later.

A shard is one partition of a state topic and the machine that its records make. Loading a machine
is applying its log. What it is asked to do is decided, appended and applied in one turn of the
loop; whoever asked hears of it once the log is durable up to there.
"""
