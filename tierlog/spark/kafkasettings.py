"""Settings of Kafka's consumer that a query brings along, as `kafka.NAME`. Pure.

Spark's Kafka source hands all of them to its consumers. Here is no consumer: what tunes one is
taken and ignored, so that a query needs no change. What says how to reach a broker safely cannot be
ignored: a query that asks for TLS must not be answered over plain text.
"""

PREFIX = "kafka."
PROTOCOL = "kafka.security.protocol"
PLAINTEXT = "PLAINTEXT"

TUNING = tuple(
    f"{PREFIX}{name}"
    for name in (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "automatic.config.providers",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "config.providers",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    )
)
"""Of Kafka 4.3, and of 3.9, which Spark 4.1 brings along. Of isolation levels there is one: records
of aborted transactions are left out."""

SECURITY = ("kafka.sasl.", "kafka.ssl.", "kafka.security.providers")
"""How they begin."""

NO_SECURITY = (
    "brokers are asked in plain text, without TLS or SASL; leave out kafka.bootstrap.servers and "
    "the security settings to read the bucket alone"
)


def needs_security(spelt: str) -> bool:
    return spelt.lower().startswith(SECURITY)
