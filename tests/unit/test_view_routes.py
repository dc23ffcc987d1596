"""The live view over HTTP: who may ask, what is refused, and that somebody who reads slowly costs a bounded amount."""

from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from view_inputs import START, plan, tick

from service.engine_process import EngineStatus
from service.view import routes as routes_module
from service.view.frames import decode_frame
from service.view.mounting import hub_of
from service.view.routes import ViewHub
from streams.errors import DeclarationError
from streams.geometry import Rect
from topology.declaration import Component, Settings, Topology


class Noted:
    """Controls that note what is asked for."""

    offers = {"hotspot": True, "kill": True}  # noqa: RUF012

    def __init__(self):
        self.asked = []

    def hotspot(self, wanted):
        self.asked.append(("hotspot", wanted))

    def kill(self, task):
        if task != "evaluator[0]":
            raise DeclarationError(f"no task {task!r} here")
        self.asked.append(("kill", task))


@pytest.fixture
def hub():
    """A view of a run of three moments."""
    made = ViewHub(Noted())
    for frame in (START, plan(1), *(tick(number) for number in range(3))):
        made.take(frame)
    return made


@pytest.fixture
def client(hub):
    """A browser's side of it."""
    with TestClient(Starlette(routes=hub.routes())) as made:
        yield made


def test_page_is_served_with_its_scripts_and_may_load_nothing_else(client):
    """The browser is told so, too."""
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("view.js", "index.css", "LICENSES.txt"):
        assert client.get(f"/view/page/{name}").status_code == 200
    for name in ("../frames.py", "%2e%2e/frames.py", "nothing"):
        assert client.get(f"/view/page/{name}").status_code == 404


def test_moments_and_plans_can_be_asked_for(client):
    """And what there is not is an error that says so."""
    assert decode_frame(client.get("/view/at?t=0.15").content)[0]["epoch"] == 1
    assert decode_frame(client.get("/view/plan/1").content)[0]["serial"] == 1
    assert client.get("/view/plan/0").status_code == 404
    for wrong in ("", "?t=", "?t=x", "?t=nan", "?t=inf"):
        answer = client.get(f"/view/at{wrong}")
        assert answer.status_code == 422
        assert "seconds since the start" in answer.json()["detail"]
    assert decode_frame(client.get("/view/outlines").content)[1]["land_at"].size > 1_000


def test_watcher_is_told_what_was_and_then_what_comes(client, hub):
    """First what may be done, then all so far, then each frame as it comes."""
    with client.websocket_connect("/view/live") as socket:
        kinds = [decode_frame(socket.receive_bytes())[0]["frame"] for _ in range(3)]
        assert kinds == ["offers", "hello", "plan"]
        client.portal.call(hub.take, tick(3))
        assert decode_frame(socket.receive_bytes())[0]["epoch"] == 3


def test_pages_of_other_sites_may_do_nothing(client, hub):
    """Neither watch nor act."""
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/view/live", headers={"origin": "http://evil.example"}),
    ):
        pass
    assert refused.value.code == 1008
    answer = client.post("/view/kill", json={"task": "evaluator[0]"}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    own = client.post("/view/kill", json={"task": "evaluator[0]"}, headers={"origin": "http://testserver"})
    assert own.status_code == 202
    assert hub.controls.asked == [("kill", "evaluator[0]")]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[" * 4_000, "application/json", 400),
        (b'{"task":"evaluator[0]"}', "text/plain", 415),
        (b" " * 5_000, "application/json", 413),
        (b'{"task":"evaluator[7]"}', "application/json", 409),
        (b"null", "application/json", 409),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(client, hub, body, kind, status):
    """And nothing is done."""
    answer = client.post("/view/kill", content=body, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert hub.controls.asked == []


def test_who_reads_too_slowly_begins_anew():
    """What waits for one reader is bounded; then he is given the present."""
    reader = routes_module._Reader()
    for _ in range(routes_module.MOST_WAITING):
        reader.offer(b"x")
    assert reader.waiting.qsize() == routes_module.MOST_WAITING
    reader.offer(b"y")
    assert reader.waiting.qsize() == 1
    assert reader.waiting.get_nowait() is None
    reader.offer(b"z")
    assert reader.waiting.get_nowait() == b"z"


def test_number_of_watchers_is_bounded(client, hub, monkeypatch):
    """One more is sent away, and may come when somebody has gone."""
    monkeypatch.setattr(routes_module, "MOST_READERS", 1)
    with client.websocket_connect("/view/live") as socket:
        socket.receive_bytes()
        with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect("/view/live"):
            pass
        assert refused.value.code == 1013
    with client.websocket_connect("/view/live") as socket:
        assert socket.receive_bytes()


def test_run_that_says_nothing_any_more_is_looked_after():
    """Where its process has failed, watchers are told."""
    found = [None]
    hub = ViewHub(state=lambda: found[0])
    hub.take(tick(0))
    hub.look()
    assert hub.chronicle.state == "running"
    found[0] = ("failed", "the engine ended")
    hub.look()
    hub.look()
    assert (hub.chronicle.state, hub.chronicle.error) == ("failed", "the engine ended")


def test_a_service_shows_its_map_before_anything_runs():
    """Who opens the page while the topology is being started is told its space and its evaluators."""

    class Starting:
        engine = SimpleNamespace(status=EngineStatus(), handlers={})
        live = Topology(
            Settings(name="t", space=Rect(-10.0, -20.0, 10.0, 20.0)),
            (Component("evaluator", "bolt", "range-evaluator", parallelism=3),),
        )

    header, _ = decode_frame(hub_of(Starting()).chronicle.hello()[0])
    assert (header["state"], header["tick"]) == ("starting", None)
    assert header["start"]["space"] == [-10.0, -20.0, 10.0, 20.0]
    assert header["start"]["evaluators"] == ["evaluator[0]", "evaluator[1]", "evaluator[2]"]
