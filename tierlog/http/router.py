"""From a method and a path to whoever answers.

Paths are compared whole: there is no pattern and no file behind them. Only a path that was added
with a slash at its end stands for everything below it. HEAD is answered by the handler of GET. Who
asks for a path that is not known is told the ones that are; who asks by a method that a path does
not take, those that it takes.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tierlog.http.message import Request, Response
from tierlog.http.problem import Problem

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Router:
    def __init__(self) -> None:
        self._routes: dict[str, dict[str, Handler]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        methods = self._routes.setdefault(path, {})
        assert method not in methods, f"{method} {path} has a handler already"
        methods[method] = handler

    @property
    def paths(self) -> list[str]:
        return sorted(self._routes)

    def find(self, request: Request) -> Handler:
        """Raises `Problem`."""
        methods = self._routes.get(request.path) or self._above(request.path)
        if methods is None:
            raise Problem(
                404,
                f"nothing is served at {request.path[:200]!r}; see the routes",
                members={"routes": self.paths},
            )
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
            raise Problem(
                405,
                f"{request.path} takes {allowed}, not {request.method[:40]}",
                headers={"Allow": allowed},
            )
        return handler

    def _above(self, path: str) -> dict[str, Handler] | None:
        """What answers for everything below the first part of the path."""
        first, slash, rest = path[1:].partition("/")
        return self._routes.get(f"/{first}/") if slash and rest else None
