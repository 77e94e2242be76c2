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
from botocore.httpsession import get_cert_path

from tierlog.objectstore.port import Body
from tierlog.objectstore.s3.deadline import Deadline
from tierlog.objectstore.s3.door import map_s3_errors
from tierlog.objectstore.s3.sending import Sending, SendingStopped
from tierlog.objectstore.s3.settings import S3Settings
from tierlog.types import Bytes

PIECE_BYTES = 4 << 20
"""Between two looks at the clock: half a usual chunk."""

# Without this botocore signs the hash of an empty body, and stores refuse every PUT.
_UNSIGNED = Config(s3={"payload_signing_enabled": False})


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Case does not matter."""
    data: Bytes


class Transport:
    """Requests to one bucket, whose URL `base` is."""

    def __init__(self, base: str, *, region: str, credentials: Any, settings: S3Settings) -> None:
        self._base = base.rstrip("/")
        url = urllib3.util.parse_url(self._base)
        self._path = url.path or ""
        self._region = region
        self._credentials = credentials
        self._pool = _pool(url, settings)

    def send(
        self,
        method: str,
        key: str,
        *,
        deadline: Deadline,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
    ) -> Answer:
        """Names of `headers` are in lower case. Whatever the status is, it is answered."""
        deadline.check()
        target = "/" + quote(key, safe="/~")
        if query:
            target += "?" + urlencode(sorted(query.items()), quote_via=quote, safe="~")
        sent = dict(headers or {})
        if body is not None:
            sent["content-length"] = str(body.size)
        with map_s3_errors(key):
            signed = self._signed(method, target, sent)
            if body is None:
                return self._exchange(method, target, signed, None, deadline)
            return self._send_body(method, target, signed, Sending(key, body, deadline), deadline)

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

    def _send_body(
        self, method: str, target: str, headers: dict[str, str], body: Sending, deadline: Deadline
    ) -> Answer:
        try:
            return self._exchange(method, target, headers, body, deadline)
        except SendingStopped:
            assert body.error is not None
            raise body.error from None

    def _exchange(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: Sending | None,
        deadline: Deadline,
    ) -> Answer:
        response = self._pool.urlopen(
            method,
            self._path + target,
            body=cast("Iterable[bytes] | None", body),  # Views are taken, too.
            headers=headers,
            preload_content=False,
            decode_content=False,
        )
        try:
            data = _read_all(response, deadline)
        except BaseException:
            response.close()  # Half an answer is still in there: nobody may use the connection.
            raise
        response.release_conn()
        return Answer(response.status, response.headers, data)


def _read_all(response: urllib3.BaseHTTPResponse, deadline: Deadline) -> Bytes:
    """As long as the store announced, else urllib3 raises `IncompleteRead`."""
    pieces: list[bytes] = []
    while piece := response.read(PIECE_BYTES, decode_content=False):
        pieces.append(piece)
        deadline.check()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _pool(url: urllib3.util.Url, settings: S3Settings) -> urllib3.HTTPConnectionPool:
    assert url.host is not None
    common: dict[str, Any] = {
        "maxsize": settings.reads_max + settings.writes_max + settings.small_max,
        "timeout": urllib3.Timeout(connect=settings.connect_s, read=settings.silence_s),
        "retries": False,
    }
    if url.scheme == "http":
        return urllib3.HTTPConnectionPool(url.host, url.port, **common)
    return urllib3.HTTPSConnectionPool(
        url.host, url.port, cert_reqs="CERT_REQUIRED", ca_certs=get_cert_path(True), **common
    )
