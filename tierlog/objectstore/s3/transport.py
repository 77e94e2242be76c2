"""One signed request over a pooled connection, once.

Nothing is repeated and no redirect is followed. Payloads are not hashed for the signature, over
plain HTTP either: SHA-256 would cost four times the rest of a PUT. What guards them is the CRC-32C
in a signed header.

Blocking; meant for threads. The pool hands each thread a connection of its own, and a new one where
the store has closed an idle one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import NoCredentialsError

from tierlog.env import Slabs
from tierlog.objectstore.port import Body
from tierlog.objectstore.s3.control import Control
from tierlog.objectstore.s3.deadline import Deadline
from tierlog.objectstore.s3.door import Door
from tierlog.objectstore.s3.receiving import PIECE_BYTES, received
from tierlog.objectstore.s3.sending import Sending, SendingStopped
from tierlog.objectstore.s3.settings import S3Settings
from tierlog.types import Bytes

SLABS_MAX = 32
"""256 MiB: as much as downloads for readers may hold. Beyond that memory is new."""

WORDS_BYTES_MAX = 64 << 10
"""What an error may say."""

# Without this botocore signs the hash of an empty body, and stores refuse every PUT.
_UNSIGNED = Config(s3={"payload_signing_enabled": False})


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Case does not matter."""
    data: Bytes
    crcs: tuple[int, ...] = ()
    """As of `Got`."""


class Transport:
    """Requests to one bucket."""

    def __init__(self, control: Control, door: Door, settings: S3Settings) -> None:
        self.door = door
        self._base = control.base
        self._region = control.region
        self._credentials = control.credentials
        url = urllib3.util.parse_url(control.base)
        self._path = url.path or ""
        self._pool = _pool(url, control.ca_certs, settings)
        self._slabs = Slabs(size=PIECE_BYTES, count_max=SLABS_MAX)

    def send(
        self,
        method: str,
        key: str,
        *,
        deadline: Deadline,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        bytes_max: int = WORDS_BYTES_MAX,
    ) -> Answer:
        """Names of `headers` are in lower case. Whatever the status is, it is answered.

        Raises `StoreLies` if more than `bytes_max` and what an error may say would come back: a
        store that ignores a range must not fill the memory.
        """
        deadline.check()
        target = "/" + quote(key, safe="/~")
        if query:
            target += "?" + urlencode(sorted(query.items()), quote_via=quote, safe="~")
        sent = dict(headers or {})
        if body is not None:
            sent["content-length"] = str(body.size)
        with self.door.mapped(key):
            sending = None if body is None else Sending(key, body, deadline)
            response = self._answered(method, target, self._signed(method, target, sent), sending)
            return _read(response, deadline, max(bytes_max, WORDS_BYTES_MAX), self._slabs)

    def close(self) -> None:
        self._pool.close()

    def _signed(self, method: str, target: str, headers: Mapping[str, str]) -> dict[str, str]:
        if self._credentials is None:
            raise NoCredentialsError
        request = AWSRequest(method=method, url=self._base + target, headers=headers)
        request.context["client_config"] = _UNSIGNED
        # Frozen anew each time: a role's keys change while the node runs.
        frozen = self._credentials.get_frozen_credentials()
        S3SigV4Auth(frozen, "s3", self._region).add_auth(request)
        return dict(request.headers.items())

    def _answered(
        self, method: str, target: str, headers: dict[str, str], body: Sending | None
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.urlopen(
                method,
                self._path + target,
                body=cast("Iterable[bytes] | None", body),  # Views are taken, too.
                headers=headers,
                preload_content=False,
                decode_content=False,
            )
        except SendingStopped:
            assert body is not None
            assert body.error is not None
            raise body.error from None


def _read(
    response: urllib3.BaseHTTPResponse, deadline: Deadline, bytes_max: int, slabs: Slabs
) -> Answer:
    try:
        body = received(response, deadline, bytes_max, slabs)
    except BaseException:
        response.close()  # Half an answer is still in there: nobody may use the connection.
        raise
    response.release_conn()
    return Answer(response.status, response.headers, body.data, body.crcs)


def _pool(url: urllib3.util.Url, ca_certs: str, settings: S3Settings) -> urllib3.HTTPConnectionPool:
    assert url.host is not None
    common: dict[str, Any] = {
        "maxsize": settings.reads_max + settings.writes_max + settings.small_max,
        "timeout": urllib3.Timeout(connect=settings.connect_s, read=settings.silence_s),
        "retries": False,
    }
    if url.scheme == "http":
        return urllib3.HTTPConnectionPool(url.host, url.port, **common)
    return urllib3.HTTPSConnectionPool(
        url.host, url.port, cert_reqs="CERT_REQUIRED", ca_certs=ca_certs, **common
    )
