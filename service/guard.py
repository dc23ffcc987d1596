"""Who may come in: on loopback those who mean it, beyond it those who have the token.

A page of somebody else, open in a browser of this machine, reaches loopback too. It cannot set the header of a token, but it
could send plain requests and open WebSockets; so requests that say they come from another origin are refused, and on loopback
those for another host name.
"""

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.problems import ProblemError, problem_response
from service.sessions import LOGIN_PAGE, Sessions

__all__ = ["Guard", "is_loopback"]

#: What a WebSocket is closed with that is refused: as HTTP's 401 and 403, moved to the range for applications.
WS_UNAUTHORISED, WS_FORBIDDEN = 4401, 4403


def is_loopback(host: str) -> bool:
    """Tell whether an address is one of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets requests through, or answers them itself."""

    def __init__(self, app: ASGIApp, token: str | None, *, loopback: bool) -> None:
        self._app, self._loopback = app, loopback
        self._token = token.encode() if token is not None else None
        self._sessions = Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request."""
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", "/session"):
            await self._session(Headers(scope=scope))(scope, receive, send)
            return
        if scope["type"] in ("http", "websocket") and (refused := self._refused(Headers(scope=scope))) is not None:
            if scope["type"] == "http":
                page = refused.status == 401 and (scope["method"], scope["path"]) == ("GET", "/")
                headers = {"Cache-Control": "no-store", **refused.headers}
                answer = Response(LOGIN_PAGE, 401, headers, "text/html") if page else problem_response(refused)
                await answer(scope, receive, send)
                return
            code = WS_UNAUTHORISED if refused.status == 401 else WS_FORBIDDEN
            if "websocket.http.response" in scope.get("extensions", {}):
                await problem_response(refused)(scope, receive, send)
                return
            await receive()
            await send({"type": "websocket.close", "code": code, "reason": refused.detail[:120]})
            return
        await self._app(scope, receive, send)

    def _session(self, headers: Headers) -> Response:
        """Give a browser that has the token a session; a cookie is not enough for another one."""
        if (refused := self._misplaced(headers) or self._unknown(headers)) is not None:
            return problem_response(refused)
        return Response(None, 204, {"Set-Cookie": self._sessions.open()} if self._token is not None else None)

    def _refused(self, headers: Headers) -> ProblemError | None:
        if (refused := self._misplaced(headers)) is not None:
            return refused
        return None if self._sessions.holds(headers.get("cookie", "")) else self._unknown(headers)

    def _misplaced(self, headers: Headers) -> ProblemError | None:
        if len(headers.getlist("host")) > 1:
            return ProblemError("bad-request", "several Host headers; send one")
        host = headers.get("host", "")
        origin = headers.get("origin")
        try:
            name = urlsplit(f"//{host}").hostname or ""
            from_elsewhere = origin is not None and urlsplit(origin).netloc != host
        except ValueError as error:
            return ProblemError("bad-request", f"the Host or the Origin of the request is none: {error}")
        if from_elsewhere:
            return ProblemError("forbidden", "pages of other origins may not use this service")
        if self._loopback and not is_loopback(name):
            return ProblemError("forbidden", "this service listens on loopback; ask for localhost or 127.0.0.1")
        return None

    def _unknown(self, headers: Headers) -> ProblemError | None:
        if self._token is None:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token):
            return None
        return ProblemError(
            "unauthorised", "send 'Authorization: Bearer TOKEN'", headers={"WWW-Authenticate": "Bearer"}
        )
