"""Finds the request and response classes of an API, importing its module only when asked."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from tierlog.wire.schema import Request, Response

if TYPE_CHECKING:
    from tierlog.wire.api_keys import ApiKey


@cache
def request_type(api: ApiKey) -> type[Request]:
    """The class of an API's request: `LIST_OFFSETS` is `list_offsets.ListOffsetsRequest`."""
    made = _class_of(api, "Request")
    assert issubclass(made, Request)
    return made


@cache
def response_type(api: ApiKey) -> type[Response]:
    """The class of an API's response."""
    made = _class_of(api, "Response")
    assert issubclass(made, Response)
    return made


def _class_of(api: ApiKey, suffix: str) -> type:
    name = api.name.lower()
    module = import_module(f"tierlog.wire.messages.{name}")
    made: type = getattr(module, "".join(word.capitalize() for word in name.split("_")) + suffix)
    return made
