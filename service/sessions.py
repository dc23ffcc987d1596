"""Sessions of browsers, which cannot send a token with a page, a WebSocket or an event source: a cookie stands for it.

Whoever has the token gets a cookie for some hours by ``POST /session``. The cookie is random and says nothing of the token;
scripts cannot read it, and other sites' pages cannot send it. It is known here by its digest only, and forgotten when the
service ends.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

__all__ = ["COOKIE", "LOGIN_PAGE", "SESSION_SECONDS", "Sessions"]

COOKIE = "waterspout-session"

#: How long a session lasts.
SESSION_SECONDS = 12 * 3_600

#: So many may be open; beyond, the oldest ends.
MOST_SESSIONS = 1_000

#: What a browser without a session gets in place of a page.
LOGIN_PAGE = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Waterspout</title>
<style>body{font:16px system-ui;margin:15vh auto;max-width:26em;padding:0 1em;color-scheme:light dark}
input,button{font:inherit}</style>
<h1>Waterspout</h1>
<form><label for="token">Token of this service</label><br>
<input id="token" type="password" autocomplete="current-password" required> <button>Open</button></form><p role="alert"></p>
<script>
document.querySelector("form").onsubmit = async event => {
  event.preventDefault();
  const headers = {authorization: "Bearer " + document.querySelector("input").value};
  const answer = await fetch("/session", {method: "POST", headers}).catch(() => null);
  if (answer && answer.ok) location.reload();
  else document.querySelector("p").textContent = answer ? "This is not the token." : "The service does not answer.";
};
</script></html>
"""


class Sessions:
    """Open sessions, by the digests of their cookies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def open(self) -> str:
        """Begin a session, and return the header that gives a browser its cookie."""
        name = secrets.token_urlsafe(32)
        self._ends[_digest(name)] = self._clock() + SESSION_SECONDS
        while len(self._ends) > MOST_SESSIONS:
            self._ends.popitem(last=False)
        return f"{COOKIE}={name}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"

    def holds(self, header: str) -> bool:
        """Tell whether the cookies of a request have a session that is open."""
        if COOKIE not in header:
            return False
        try:
            found = SimpleCookie(header).get(COOKIE)
        except CookieError:
            return False
        return found is not None and self._ends.get(_digest(found.value), 0.0) > self._clock()


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
