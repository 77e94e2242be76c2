"""A real Apache Kafka beside us: one combined KRaft node, JVM settings of Kafka's own start script.

The jars come from Maven Central by mvn, once, into a cache folder outside the clone
(`TIERLOG_KAFKA_CACHE`, else `~/.cache/tierlog-kafka`); nothing is installed. Without Java, or
without mvn and a filled cache, a sentence says what is missing.
"""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import ClassVar, Self

from benchmarks import requests, tools
from benchmarks.broker import Broker, ask, wait_until
from benchmarks.harness import Unavailable

VERSION = "4.3.1"
SCALA = "2.13"
LOGGING = "2.25.1"
HEAP = "1g"
"""What Kafka's own start script gives a broker."""
CLUSTER_ID = "dGllcmxvZy1iZW5jaC1wZQ"
RESOLVER = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

LOG4J = """status = error
appender.console.type = Console
appender.console.name = C
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = WARN
rootLogger.appenderRef.c.ref = C
"""

COLLECTOR = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)


def cache() -> Path:
    named = os.environ.get("TIERLOG_KAFKA_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "tierlog-kafka"


def jars() -> Path:
    """The folder with the broker's jars; fetched if this is the first time."""
    if shutil.which("java") is None:
        raise Unavailable("there is no java to run Apache Kafka with; it needs 17 or newer")
    folder = cache() / f"jars-{VERSION}"
    if not folder.is_dir():
        _fetch_jars(folder)
    return folder


def _fetch_jars(folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise Unavailable(f"there is no mvn to fetch Apache Kafka with, and {folder} is empty")
    work = cache() / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "pom.xml").write_text(_pom())
    partial = work / "jars"
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mvn", "-B", "-q", f"-Dmaven.repo.local={work / 'm2'}", RESOLVER]
    command += [f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"mvn could not fetch Apache Kafka {VERSION}:\n{done.stdout[-2000:]}")
    partial.rename(folder)  # Whole or not there at all.


def _pom() -> str:
    wanted = [
        ("org.apache.kafka", f"kafka_{SCALA}", VERSION),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", LOGGING),
        ("org.apache.logging.log4j", "log4j-core", LOGGING),
        ("org.apache.logging.log4j", "log4j-1.2-api", LOGGING),
    ]
    lines = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, name, version in wanted
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>bench</groupId>"
        "<artifactId>kafka-beside-us</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{lines}</dependencies></project>"
    )


class Kafka(Broker):
    """See the module. A second `start` on the same folder is a restart."""

    name: ClassVar[str] = "Kafka"
    cuts_batches: ClassVar[bool] = True

    def start(self) -> Self:
        """Back when it answers."""
        self.launch()
        wait_until(self._serves, f"Kafka does not serve; see {self.folder / 'broker.out'}")
        return self

    def launch(self) -> None:
        """Start the process and do not wait."""
        libraries = jars()
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        if not properties.exists():
            self.port = free_port()
            properties.write_text(self._properties(free_port()))
            (self.folder / "log4j2.properties").write_text(LOG4J)
            self._format(libraries, properties)
        command = [*self._java(libraries), f"-Xmx{HEAP}", f"-Xms{HEAP}", *COLLECTOR]
        with (self.folder / "broker.out").open("a") as out:
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def log_paths(self) -> list[Path]:
        # The controller's own log grows with every change of a topic.
        return [path for path in super().log_paths() if "__cluster_metadata" not in path.parts[-2]]

    def _java(self, libraries: Path) -> list[str]:
        log4j = self.folder / "log4j2.properties"
        return ["java", "-cp", f"{libraries}/*", f"-Dlog4j2.configurationFile={log4j}"]

    def _format(self, libraries: Path, properties: Path) -> None:
        command = [*self._java(libraries), "kafka.tools.StorageTool", "format"]
        command += ["-t", CLUSTER_ID, "-c", str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise tools.RunFailed(f"Kafka does not format its folder: {done.stdout}{done.stderr}")

    def _properties(self, controller_port: int) -> str:
        return "\n".join(
            [
                "process.roles=broker,controller",
                "node.id=1",
                f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
                f"listeners=PLAINTEXT://127.0.0.1:{self.port},"
                f"CONTROLLER://127.0.0.1:{controller_port}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}",
                "controller.listener.names=CONTROLLER",
                "inter.broker.listener.name=PLAINTEXT",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                f"log.dirs={self.folder / 'log'}",
                "offsets.topic.replication.factor=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "share.coordinator.state.topic.replication.factor=1",
                "share.coordinator.state.topic.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                "log.segment.delete.delay.ms=100",
                "log.initial.task.delay.ms=1000",
                "",
            ]
        )

    def _serves(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = (self.folder / "broker.out").read_text()[-2000:]
            raise tools.RunFailed(f"Kafka ended: {tail}")
        try:
            return bool(ask(self.port, requests.all_topics(), timeout_s=2))
        except OSError:
            return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
