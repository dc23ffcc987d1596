"""What goes wrong with a request, as RFC 9457 has it: what, where, what was expected, what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["MEDIA_TYPE", "ProblemError", "problem_of", "problem_response", "rejects_of"]

MEDIA_TYPE = "application/problem+json"

#: Kinds of problem, with their status and title. The type of a problem is ``urn:waterspout:KIND``.
KINDS: Mapping[str, tuple[int, str]] = {
    "bad-request": (400, "The request cannot be read"),
    "bad-cursor": (400, "The cursor is none of this service"),
    "unauthorised": (401, "A token is needed"),
    "forbidden": (403, "The request comes from elsewhere"),
    "not-found": (404, "There is no such thing"),
    "method": (405, "The method is not known here"),
    "timeout": (408, "The body came too slowly"),
    "expired-cursor": (410, "The cursor has expired"),
    "too-large": (413, "The body is too large"),
    "media-type": (415, "The body is of another kind"),
    "invalid": (422, "What was sent cannot be used"),
    "busy": (429, "Too much waits already"),
    "failed": (500, "The service has failed"),
    "not-ready": (503, "The topology does not run"),
    "no-answer": (504, "No answer came in time"),
}


class ProblemError(Exception):
    """A request that is answered with a problem."""

    def __init__(self, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail
        self.headers = dict(headers or {})
        self.members = members

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.kind][0]

    def body(self) -> dict[str, Any]:
        """Return the problem as the members of its JSON object."""
        status, title = KINDS[self.kind]
        return {
            "type": f"urn:waterspout:{self.kind}", "title": title, "status": status, "detail": self.detail,
            **self.members,
        }  # fmt: skip


def rejects_of(rejected: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    """Return refused records as the contract has them."""
    return [{"line": line, "reason": reason} for line, reason in rejected]


def problem_response(problem: ProblemError) -> Response:
    """Return a problem as a response."""
    return Response(msgspec.json.encode(problem.body()), problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


async def problem_of(_request: Request, error: Exception) -> Response:
    """Turn whatever ends a request into a problem; what is nobody's fault but ours says nothing of our insides."""
    if isinstance(error, ProblemError):
        return problem_response(error)
    if isinstance(error, HTTPException):
        kind = next((kind for kind, (status, _) in KINDS.items() if status == error.status_code), "bad-request")
        return problem_response(ProblemError(kind, error.detail, headers=error.headers))
    return problem_response(ProblemError("failed", "an error of the service; its log says more"))
