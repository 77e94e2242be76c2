"""The one door out of this room for what went wrong.

A store says no with a status and, mostly, a code in a scrap of XML. `refusal` says what that means
to a reader, `outcome` what it means to a conditional write: lost, certainly not done (raised), or
anybody's guess.
"""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
)
from urllib3.exceptions import HTTPError

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


def refusal(key: str, said: Said) -> StoreError:
    """What to raise where an answer was wanted."""
    status, code = said.status, said.code
    if code == NO_BUCKET:
        return StoreDenied(f"{key}: the bucket does not exist: create it, or name another ({said})")
    if 300 <= status < 400:
        where = said.region or "another region"
        return StoreDenied(f"{key}: the bucket is in {where}: set s3.region ({said})")
    if status in {401, 403} or code in _CREDENTIALS:
        return StoreDenied(
            f"{key}: the store refuses these credentials: see which ones the AWS chain finds here "
            f"(AWS_ACCESS_KEY_ID, a profile, a role), and what they may do in the bucket ({said})"
        )
    # 405: the version that was asked for is the mark of a deletion.
    if status in {404, 405}:
        return NoSuchObject(key)
    if status == 429 or code in _THROTTLED:
        return StoreThrottled(f"{key}: the store asks for patience ({said})")
    # 409: another call on this key is under way.
    if status >= 500 or status == 409 or code in _TIMED_OUT or not status >= 400:
        return StoreUnavailable(f"{key}: the store failed ({said})")
    return StoreBadRequest(f"{key}: the store refuses the request ({said})")


def outcome(key: str, said: Said) -> Written:
    """Of a write that was not acknowledged. Raises what is certain: that it did not happen."""
    error = refusal(key, said)
    # 404: If-Match on a key that is not there.
    if said.status == 412 or isinstance(error, NoSuchObject):
        return Written(outcome=Outcome.LOST, detail=str(said))
    if isinstance(error, StoreUnavailable):
        return Written(outcome=Outcome.AMBIGUOUS, detail=str(said))
    raise error


@contextmanager
def map_s3_errors(key: str) -> Iterator[None]:
    """Whatever the libraries raise, as errors of this room."""
    try:
        yield
    except ClientError as error:
        raise refusal(key, said_by(error)) from error
    except (NoCredentialsError, CredentialRetrievalError) as error:
        raise StoreDenied(
            "no credentials for the store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use "
            f"a profile or a role ({error})"
        ) from error
    except ParamValidationError as error:
        raise StoreBadRequest(f"{key}: {error}") from error
    except (BotoCoreError, HTTPError) as error:
        raise _unreached(key, error) from error


def _unreached(key: str, error: Exception) -> StoreError:
    reason = f"{key}: {type(error).__name__}: {error}"
    if _is_about_certificates(error):
        return StoreDenied(reason)
    return StoreUnavailable(reason)


def _is_about_certificates(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        inner = error.args[0] if error.args else None
        error = inner if isinstance(inner, Exception) else error.__cause__ or error.__context__
    return False
