"""Names below a node's data directory, for whoever fills it: a node, or a restore."""

LOGS = "log"
META = "meta"
COLD = "cold"
"""Local copies of HEAD objects."""
