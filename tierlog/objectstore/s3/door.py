"""The one door out of this room for what went wrong.

A store says no with a status and, mostly, a code in a scrap of XML. `refusal` says what that means
to a reader, `outcome` what it means to a conditional write: lost, certainly not done (raised), or
anybody's guess. Sentences name the object as its URL, or the host, and what somebody can do.
"""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from urllib3.exceptions import HTTPError, NameResolutionError, ProtocolError
from urllib3.exceptions import TimeoutError as TooLate

from tierlog.objectstore.errors import (
    NoSuchObject,
    StoreBadRequest,
    StoreDenied,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)
from tierlog.objectstore.port import Outcome, Written

_CODE = re.compile(rb"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]{1,500})</Message>")

_THROTTLED = {
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "TooManyRequests",
    "RequestLimitExceeded",
}
# AWS says 400 where a client was too slow to send its body, and where a role's token has run out.
_TIMED_OUT = {"RequestTimeout"}
_CREDENTIALS = {
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "AuthorizationHeaderMalformed",
}
NO_BUCKET = "NoSuchBucket"


class Said(NamedTuple):
    """What the store answered instead of doing it."""

    status: int
    code: str = ""
    message: str = ""
    region: str = ""
    """Of the bucket, where the store says that it is elsewhere."""

    def __str__(self) -> str:
        return " ".join(each for each in (str(self.status), self.code, self.message) if each)


def said_in(status: int, body: bytes, *, region: str = "") -> Said:
    return Said(status, _first(_CODE, body), _first(_MESSAGE, body), region)


def _first(pattern: re.Pattern[bytes], body: bytes) -> str:
    found = pattern.search(body)
    return found.group(1).decode(errors="replace") if found else ""


def said_by(error: ClientError) -> Said:
    metadata = error.response.get("ResponseMetadata", {})
    details = error.response.get("Error", {})
    return Said(
        int(metadata.get("HTTPStatusCode", 0)),
        str(details.get("Code", "")),
        str(details.get("Message", "")),
        str(metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")),
    )


@dataclass(frozen=True, slots=True)
class Door:
    bucket: str
    service: str
    """URL of the service, or of the bucket there."""

    def url(self, key: str = "") -> str:
        """Of an object, or of what begins so, as people write it. Keys are whole."""
        return f"s3://{self.bucket}/{key}".rstrip("/")

    @property
    def host(self) -> str:
        """With its port: what must answer."""
        parts = urlsplit(self.service)
        port = parts.port or (80 if parts.scheme == "http" else 443)
        return f"{parts.hostname}:{port}"

    def refusal(self, key: str, said: Said) -> StoreError:
        """What to raise where an answer was wanted."""
        status, code, url = said.status, said.code, self.url(key)
        if code == NO_BUCKET:
            return StoreDenied(
                f"{url}: the bucket {self.bucket} does not exist; create it or correct --store"
            )
        if 300 <= status < 400:
            where = said.region or "another region"
            return StoreDenied(f"{url}: the bucket is in {where}; set s3.region ({said})")
        if status in {401, 403} or code in _CREDENTIALS:
            return StoreDenied(
                f"{url}: the store refuses these credentials; see which ones the AWS chain finds "
                "here (AWS_ACCESS_KEY_ID, a profile, a role), and what they may do in the bucket "
                f"({said})"
            )
        # 405: the version that was asked for is the mark of a deletion.
        if status in {404, 405}:
            return NoSuchObject(key)
        if status == 429 or code in _THROTTLED:
            return StoreThrottled(f"{url}: the store asks for patience ({said})")
        # 409: another call on this key is under way.
        if status >= 500 or status == 409 or code in _TIMED_OUT or not status >= 400:
            return StoreUnavailable(f"{url}: the store failed ({said})")
        return StoreBadRequest(f"{url}: the store refuses the request ({said})")

    def outcome(self, key: str, said: Said) -> Written:
        """Of a write that was not acknowledged. Raises what is certain: that it did not happen."""
        error = self.refusal(key, said)
        # 404: If-Match on a key that is not there.
        if said.status == 412 or isinstance(error, NoSuchObject):
            return Written(outcome=Outcome.LOST, detail=str(said))
        if isinstance(error, StoreUnavailable):
            return Written(outcome=Outcome.AMBIGUOUS, detail=str(said))
        raise error

    @contextmanager
    def mapped(self, key: str) -> Iterator[None]:
        """Whatever the libraries raise, as errors of this room."""
        try:
            yield
        except ClientError as error:
            raise self.refusal(key, said_by(error)) from error
        except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
            raise StoreDenied(
                f"{self.url()}: there are no credentials; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or another way of the AWS chain"
            ) from error
        except ParamValidationError as error:
            raise StoreBadRequest(f"{self.url(key)}: {error}") from error
        except (BotoCoreError, HTTPError) as error:
            raise self._unreached(key, error) from error

    def _unreached(self, key: str, error: Exception) -> StoreError:
        causes = list(_causes(error))
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return StoreDenied(
                    f"{self.host}: its certificate is not trusted ({cause.verify_message}); name "
                    "the authority's file by AWS_CA_BUNDLE"
                )
        # The innermost knows best: urllib3 calls a refused connection one that came too late.
        words = filter(None, map(_in_words, reversed(causes)))
        why = next(words, f"{type(error).__name__}: {error}")
        return StoreUnavailable(f"{self.url(key)}: {self.host} does not answer: {why}")


def _in_words(cause: BaseException) -> str:
    """Empty where another cause may say more."""
    if isinstance(cause, NameResolutionError):
        return "no such host; see s3.endpoint and s3.region"
    if isinstance(cause, ConnectionRefusedError):
        return "nobody listens there; start it, or correct s3.endpoint"
    if isinstance(cause, TooLate | TimeoutError):
        return "it is silent for too long"
    if isinstance(cause, ssl.SSLError):
        return "it does not speak TLS; see whether s3.endpoint is http:// or https://"
    if isinstance(cause, ConnectionError | ProtocolError):
        return "the connection was cut"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """From the outermost in: as arguments, as both libraries like it, or chained."""
    while error is not None:
        yield error
        inner = next((each for each in error.args if isinstance(each, Exception)), None)
        error = inner or error.__cause__ or error.__context__
