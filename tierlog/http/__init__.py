"""The HTTP side of a node: what a person, a probe or Prometheus may ask without a Kafka client.

A small HTTP/1.1 server on the running loop: `/metrics`, `/healthz`, `/readyz`, `/state` and more;
`/prewarm` and `/holds` alone make the node do something. Requests are bounded in size and time and
no path of a request ever reaches the disk. It reads the counters that the broker keeps; nothing
here runs on the road of a produce or a fetch.

Not here: what is counted (`broker/stats.py`, `broker/traffic.py`) and what is served to Kafka
clients (`broker/`).
"""

from tierlog.http.health import Phase
from tierlog.http.routes import node_router
from tierlog.http.server import HttpLimits, HttpServer
from tierlog.http.view import NodeView

__all__ = ["HttpLimits", "HttpServer", "NodeView", "Phase", "node_router"]
