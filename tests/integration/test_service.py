"""A service as a client sees it: real processes on loopback, killed, pestered and asked."""

import asyncio
import contextlib
import json
import random
import runpy
import shutil
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
import schemathesis
import schemathesis.specs.openapi.checks as openapi_checks
from hypothesis import HealthCheck, given, settings
from served import served
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from operators.spouts.journal import unpack_entry
from streams.segment_log import LogReader
from topology.live import LIVE
from waterspout.client import AsyncClient, Client, ExpiredCursorError, ServiceError

CONF = Path(__file__).parents[2] / "conf"
CONFORMANCE = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]
NDJSON = {"content-type": "application/x-ndjson"}
WHERE = {"type": "range", "region": {"rect": [0, 0, 1, 1]}}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """One service of all types of query, for all tests that do not kill it."""
    with served(CONF / "live.toml", tmp_path_factory.mktemp("live")) as service:
        service.until_ready()
        yield service


@pytest.fixture
def client(live):
    with Client(live.url) as client:
        yield client


def _name():
    return f"q{random.randrange(10**12)}"


def _at(x, y, **more):
    return {"id": _name(), "x": x, "y": y, **more}


# --- requests ---------------------------------------------------------------------------------------------------------


def test_objects_meet_the_queries_of_all_types(client):
    """What is published reaches standing queries of every type, and is found by those who ask once."""
    word = f"word{random.randrange(10**9)}"
    near, far = _at(20.1, 20.0, text=word), _at(25.0, 25.0, text=word)
    client.register("r", type="range", region={"rect": [20, 20, 21, 21]}, keywords=[word])
    client.register("n", type="knn", at=[20, 20], k=1, keywords=[word], match="any")
    client.register("t", type="topk", at=[20, 20], k=2, alpha=0.5, keywords=[word])
    results = client.results("r", "n", "t", cursor=client.position())
    published = client.publish([near, far])
    assert (published.accepted, published.rejected, published.durable) == (2, [], False)
    found: dict[str, object] = {}
    while len(found) < 3 or len(found["t"]) < 2 or found["n"][0][0] != near["id"]:
        line = next(results).line
        found[line["query"]] = line.get("object", line.get("objects"))
    assert found["r"] == near["id"]
    assert [item[0] for item in found["t"]] == [near["id"], far["id"]]
    assert client.query("n")["result"]["objects"] == [[near["id"], pytest.approx(10_448.919)]]  # metres
    asked = {"region": {"rect": [20, 20, 30, 30]}, "keywords": [word], "window": 3_600_000}
    assert sorted(client.ask(type="range", **asked)["objects"]) == sorted([near["id"], far["id"]])
    assert client.ask(type="knn", at=[25, 25], k=1, keywords=[word], window=3_600_000)["objects"] == [[far["id"], 0.0]]
    assert client.ask(type="terms", k=3, **asked)["terms"] == [[word, 2]]


def test_queries_are_replaced_and_ended(live, client):
    """PUT answers 201, then 200; DELETE 204, then 404; and what has ended finds nothing more."""
    name, path = _name(), "/queries/"
    body = {"type": "range", "region": {"rect": [30, 30, 31, 31]}}
    assert live.http.put(path + name, json=body).status_code == 201
    again = {"type": "range", "region": {"rect": [32, 32, 33, 33]}}
    assert live.http.put(path + name, json=again).status_code == 200
    assert live.http.get(path + name).json()["query"]["region"] == again["region"]
    position = client.position()
    client.publish([_at(30.5, 30.5), hit := _at(32.5, 32.5)])
    assert next(client.results(name, cursor=position)).line["object"] == hit["id"]
    assert live.http.delete(path + name).status_code == 204
    assert live.http.delete(path + name).status_code == 404
    assert live.http.get(path + name).status_code == 404


def test_current_lists_come_before_what_is_new(client):
    """Who subscribes to a list is given it as it is, then each change: nothing is missed between."""
    name = _name()
    client.register(name, type="knn", at=[-50, -50], k=2)
    client.publish([first := _at(-50, -51)])
    while client.query(name)["result"] is None:
        time.sleep(0.01)
    results = client.results(name)
    degree = pytest.approx(111_195.08)  # metres
    assert next(results).line["objects"] == [[first["id"], degree]]
    client.publish([second := _at(-50, -50.5)])
    assert next(results).line["objects"] == [[second["id"], pytest.approx(55_597.54)], [first["id"], degree]]


def test_current_lists_of_queries_with_numbers_for_names_come_too(live, client):
    """Who subscribes to a query whose identifier is an integer is given its list as it is."""
    number = random.randrange(10**9)
    query = {"id": number, "type": "knn", "at": [-60, -60], "k": 1}
    assert live.http.post("/queries", json=query).json()["accepted"] == 1
    client.publish([hit := _at(-60, -60)])
    live.until(lambda: live.http.get(f"/queries/{number}").json()["result"] is not None)
    line = next(client.results(str(number))).line
    assert (line["query"], line["objects"]) == (number, [[hit["id"], 0.0]])


def test_who_subscribes_before_a_query_is_there_gets_what_it_finds(live, client):
    """Also where its identifier turns out to be a number; who only asks for the head of the stream subscribes to nothing."""
    number = random.randrange(10**9)
    before = live.http.get("/subscriptions").json()["subscriptions"]
    assert "waterspout-cursor" in live.http.head("/results").headers
    assert len(live.http.get("/subscriptions").json()["subscriptions"]) == len(before)
    with connect(f"{live.websocket}?query={number}") as socket:
        client.publish([])
        query = {"id": number, "type": "range", "region": {"rect": [-61, -61, -60, -60]}}
        assert live.http.post("/queries", json=query).json()["accepted"] == 1
        client.publish([hit := _at(-60.5, -60.5)])
        assert json.loads(socket.recv(30))["object"] == hit["id"]


def test_a_request_to_two_hosts_is_refused(live):
    """A guard that looks at one of two names would let the other pass."""
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert b" 400 " in raw.recv(1_000)


def test_every_method_of_a_path_is_told_to_who_asks_with_another(live):
    """`Allow` names those of all requests of that path."""
    answer = live.http.request("OPTIONS", "/queries/x")
    assert answer.status_code == 405
    assert {name.strip() for name in answer.headers["allow"].split(",")} == {"GET", "HEAD", "PUT", "DELETE"}


def test_geojson_and_json_are_taken(live):
    """One object, an array, a Feature and a collection; what is no point is named by its place."""
    feature = {
        "type": "Feature",
        "id": "f",
        "geometry": {"type": "Point", "coordinates": [1, 2]},
        "properties": {"text": "a"},
    }
    line = {"type": "Feature", "id": "g", "geometry": {"type": "LineString", "coordinates": []}, "properties": None}
    whole = {"type": "FeatureCollection", "features": [feature, line, 7]}
    geo = {"content-type": "application/geo+json"}
    assert live.http.post("/objects", json=_at(1, 1)).json()["accepted"] == 1
    assert (
        live.http.post(
            "/objects",
            content=json.dumps([_at(1, 1), _at(2, 2)], indent=2),
            headers={"content-type": "application/json"},
        ).json()["accepted"]
        == 2
    )
    assert live.http.post("/objects", content=json.dumps(feature), headers=geo).json()["accepted"] == 1
    answer = live.http.post("/objects", content=json.dumps(whole), headers=geo).json()
    assert answer["accepted"] == 1
    assert [one["line"] for one in answer["rejected"]] == [2, 3]
    assert "LineString" in answer["rejected"][0]["reason"]


def test_events_go_on_behind_the_last_one(live, client):
    """As server-sent events, with `Last-Event-ID`: the same lines, from behind it on."""
    name = _name()
    client.register(name, type="range", region={"rect": [40, 40, 41, 41]})
    position = client.position()
    published = [_at(40.5, 40.5) for _ in range(4)]
    client.publish(published)

    def events(cursor, count):
        found = []
        with live.http.stream("GET", "/results", params={"query": name}, headers={"Last-Event-ID": cursor}) as answer:
            place = None
            for text in answer.iter_lines():
                if text.startswith("id: "):
                    place = text[4:]
                elif text.startswith("data: "):
                    found.append((place, json.loads(text[6:])["object"]))
                    if len(found) == count:
                        break
        return found

    whole = events(position, 4)
    assert {one for _, one in whole} == {one["id"] for one in published}
    assert events(whole[1][0], 2) == whole[2:]


def test_what_is_wrong_is_said(live):
    """Errors are problem details with a status that fits; nothing of them stops the service."""
    cases = [
        (live.http.put("/queries/x", json={"type": "rang"}), 422, "did you mean 'range'"),
        (live.http.put("/queries/x", json={"type": "range", "id": 1}), 422, "leave it out"),
        (live.http.put("/queries/x", content=b"{"), 400, "no JSON"),
        (live.http.put("/queries/x", json=[1]), 422, "expected a JSON object"),
        (
            live.http.post("/queries:ask", json={"type": "topk", "at": [0, 0], "k": 1, "alpha": 1, "keywords": ["a"]}),
            422,
            "always continuous",
        ),
        (live.http.post("/queries:ask", json={"type": "range", "continuous": True}), 422, "PUT"),
        (live.http.post("/objects", content=b"x", headers={"content-type": "text/plain"}), 415, "application/x-ndjson"),
        (live.http.post("/objects", content=b"x", headers={**NDJSON, "content-encoding": "gzip"}), 415, "plain"),
        (live.http.post("/objects", content=b"\n" * 300_000, headers=NDJSON), 413, "records"),
        (live.http.get("/results", params={"policy": "never"}), 400, "drop-oldest"),
        (live.http.get("/results", params={"cursor": "soon"}), 400, "none that this service"),
        (live.http.get("/results", params={"lines": "few"}), 400, "one or many"),
        (live.http.post("/queries", json="all"), 422, "an array of these"),
        (live.http.get("/nothing"), 404, "Not Found"),
        (live.http.get("/../../etc/passwd"), 404, ""),
        (live.http.get("/queries/%2e%2e%2f%2e%2e%2fetc"), 404, "no query"),
        (live.http.patch("/objects"), 405, ""),
        (live.http.get("/healthz", headers={"host": "evil.example"}), 403, "loopback"),
        (live.http.get("/healthz", headers={"origin": "http://evil.example"}), 403, "origin"),
        (live.http.get("/queries/%ff%fe"), 400, "UTF-8"),
        (live.http.put("/queries/%ff", json=WHERE), 400, "UTF-8"),
        (live.http.put("/queries/q", content=b"x", headers={"content-encoding": "gzip"}), 415, "plain"),
        (live.http.put("/queries/q", json={**WHERE, "ts": 10**18}), 422, "ahead of the clock"),
        (live.http.put("/queries/q", content=b'{"type":"range","type":"knn"}'), 422, "more than once"),
        (live.http.get("/healthz", headers={"host": "[::1"}), 400, "none"),
        (live.http.get("/healthz", headers={"origin": "http://[::1"}), 400, "none"),
    ]
    for answer, status, text in cases:
        assert answer.status_code == status, (answer.request.url, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert text in answer.json()["detail"]
    assert live.http.get("/readyz").status_code == 200


def test_bodies_beyond_the_bound_are_not_received(live):
    """A gigabyte that is announced is refused at once; one that is not announced is cut off at the bound."""
    address = live.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), timeout=30) as raw:
        raw.sendall(
            b"POST /objects HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: 1000000000\r\n\r\n"
        )
        assert b" 413 " in raw.recv(1000)
    sent = 0

    def endless():
        nonlocal sent
        while sent < 200 << 20:
            sent += 1 << 20
            yield b" " * (1 << 20)

    with contextlib.suppress(httpx.TransportError):  # the connection may be closed while the rest is on its way
        assert live.http.post("/objects", content=endless(), headers=NDJSON).status_code == 413
    assert sent < 150 << 20


def test_fuzzed_bodies_get_an_answer(live):
    """Whatever the bytes, the answer is one of those that are documented, and the stream goes on."""
    rng = random.Random(5)
    good = json.dumps({"id": "a", "x": 1, "y": 1, "text": "x"}).encode()
    for _ in range(150):
        data = bytearray(rng.choice([good, b"[" + good + b"]", b"[" * 2_000, rng.randbytes(40), good + b"\n" + good]))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        kind = rng.choice(["application/x-ndjson", "application/json", "application/geo+json"])
        answer = live.http.post("/objects", content=bytes(data), headers={"content-type": kind})
        assert answer.status_code in (202, 400, 422), answer.text
        answer = live.http.put("/queries/fuzz", content=bytes(data))
        assert answer.status_code in (200, 201, 400, 422), answer.text
    assert live.http.get("/readyz").status_code == 200


def test_a_client_that_never_reads_slows_nobody(live, client):
    """While one socket is stuck, others get everything, and what waits for him is bounded."""
    name = _name()
    client.register(name, type="range", region={"rect": [60, 60, 61, 61]})
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        stuck.sendall(
            f"GET /results?query={name}&policy=drop-oldest&queue=50 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b"101" in stuck.recv(500)
        results = client.results(name, cursor=client.position())
        count = 30_000
        for _ in range(count // 5_000):
            client.publish([_at(60.5, 60.5, text="x" * 10) for _ in range(5_000)])
        assert len({next(results).line["object"] for _ in range(count)}) == count
        mine = [
            one for one in live.http.get("/subscriptions").json()["subscriptions"] if one["policy"] == "drop-oldest"
        ]
        assert mine[0]["waiting"] <= 50
        assert mine[0]["dropped"] > 0


def test_documents_and_figures_are_there(live, client):
    """OpenAPI, AsyncAPI, Prometheus and Storm's requests answer with what they are about."""
    client.publish([_at(1, 1)])
    paths = live.http.get("/openapi.json").json()["paths"]
    assert {"/objects", "/queries/{id}", "/queries:ask", "/results", "/metrics"} <= paths.keys()
    assert "results" in live.http.get("/asyncapi.json").json()["channels"]
    live.until(lambda: 'storm_task_executed_total{component="evaluator",task="0"}' in live.http.get("/metrics").text)
    assert "waterspout_epoch_complete_latency_seconds_bucket" in live.http.get("/metrics").text
    assert live.http.get("/api/v1/cluster/summary").json()["topologies"] == 1
    assert live.http.get("/api/v1/topology/summary").json()["topologies"][0]["status"] == "ACTIVE"
    one = live.http.get("/api/v1/topology/live").json()
    assert [spout["spoutId"] for spout in one["spouts"]] == [LIVE]
    assert live.http.get("/api/v1/topology/live/component/evaluator").json()["tasks"] == 4
    assert live.http.get("/api/v1/topology/other").status_code == 404
    assert live.http.post("/api/v1/topology/live/rebalance/x").status_code == 400


def test_async_clients_do_the_same(live):
    """Publish, ask and receive with await."""

    async def talk():
        async with AsyncClient(live.url) as client:
            name = _name()
            await client.register(name, type="range", region={"rect": [70, 70, 71, 71]})
            position = await client.position()
            await client.publish([hit := _at(70.5, 70.5)])
            results = client.results(name, cursor=position)
            assert (await anext(results)).line["object"] == hit["id"]
            await results.aclose()
            assert (await client.ask(type="knn", at=[70.5, 70.5], k=1, window=3_600_000))["objects"][0][0] == hit["id"]
            await client.unregister(name)
            with pytest.raises(ServiceError, match="no query"):
                await client.query(name)

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_example_subscribes_publishes_and_comes_back(live, capsys):
    """The shipped example against a real service."""
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "live_client.py"))["main"](live.url)
    assert capsys.readouterr().out.splitlines() == [
        "published 5, rejected 0", "received ship-0, ship-1, ship-2, ship-3, ship-4",
    ]  # fmt: skip


def test_requests_are_answered_as_described(live):
    """Whatever is drawn from the OpenAPI document: no error of ours, and status, kind and form of the answer as it says."""
    described = schemathesis.openapi.from_url(f"{live.url}/openapi.json")
    endless = described.exclude(path="/results").exclude(path_regex="rebalance|kill")  # or they end the service
    asked = 0
    for found in endless.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
        )
        @given(case=operation.as_strategy())
        def check(case):
            case.call_and_validate(checks=CONFORMANCE, timeout=60)

        check()
        asked += 1
    assert asked > 12


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_beyond_loopback_every_request_needs_the_token(tmp_path):
    """Without a token the service does not start there; with one, only who brings it is let in."""
    token = tmp_path / "token"
    token.write_text("a-secret-of-some-length\n")
    with (
        pytest.raises(AssertionError, match="beyond loopback"),
        served(CONF / "quickstart.toml", tmp_path, "--host", "0.0.0.0"),
    ):
        pass
    options = ("--host", "0.0.0.0", "--token-file", str(token))
    with served(CONF / "quickstart.toml", tmp_path, *options) as service:
        url = service.url.replace("0.0.0.0", "127.0.0.1")
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic a-secret-of-some-length"}):
            answer = httpx.get(f"{url}/healthz", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        with pytest.raises(Exception, match=r"401|403"), connect(url.replace("http", "ws") + "/results"):
            pass
        assert httpx.get(f"{url}/healthz?token=a-secret-of-some-length").status_code == 401
        _use_a_session(url, "a-secret-of-some-length")
        with Client(url, token="a-secret-of-some-length") as client:
            client.register("q", type="range", region={"rect": [0, 0, 1, 1]})
            position = client.position()
            client.publish([_at(0.5, 0.5)])
            assert next(client.results("q", cursor=position)).query == "q"
        with (
            Client(url, token="another-of-some-length") as other,
            pytest.raises(ServiceError, match="A token is needed"),
        ):
            next(other.results())  # nor does it try for ever


def _use_a_session(url, token):
    """A browser that shows the token once reads the page and opens WebSockets by its cookie, from its own origin only."""
    asked = httpx.get(f"{url}/")
    assert (asked.status_code, asked.headers["content-type"].partition(";")[0]) == (401, "text/html")
    for headers in (
        {},
        {"Authorization": "Bearer no"},
        {"Authorization": f"Bearer {token}", "Origin": "http://evil.example"},
    ):
        assert httpx.post(f"{url}/session", headers=headers).status_code in (401, 403)
    given = httpx.post(f"{url}/session", headers={"Authorization": f"Bearer {token}"})
    assert given.status_code == 204
    assert {"HttpOnly", "SameSite=Strict"} <= set(given.headers["set-cookie"].split("; "))
    assert token not in given.headers["set-cookie"]
    cookie = {"Cookie": given.headers["set-cookie"].partition(";")[0]}
    assert httpx.get(f"{url}/", headers=cookie).status_code == 200
    assert httpx.get(f"{url}/healthz", headers={"Cookie": cookie["Cookie"] + "x"}).status_code == 401
    assert httpx.post(f"{url}/session", headers=cookie).status_code == 401
    with connect(url.replace("http", "ws") + "/results", additional_headers=cookie) as socket:
        assert socket.response.headers["waterspout-cursor"]
    evil = {**cookie, "Origin": "http://evil.example"}
    with (
        pytest.raises(Exception, match="403"),
        connect(url.replace("http", "ws") + "/results", additional_headers=evil),
    ):
        pass


# --- crashes ----------------------------------------------------------------------------------------------------------


def _connected(service, cursor, close_timeout=0.1):
    return connect(f"{service.websocket}?cursor={cursor}", close_timeout=close_timeout)


def _matches(journal):
    """Return what standing range queries over a journal find, by the definition: (query, object) pairs, counted."""
    queries, found, objects = {}, Counter(), []
    for frame in LogReader(journal):
        entry = unpack_entry(frame)
        for op, target, name, ts, shape in zip(
            entry.queries.op,
            entry.queries.target,
            entry.queries.ids.to_list(),
            entry.queries.ts,
            entry.queries.shape,
            strict=True,
        ):
            if op == 0:
                queries[int(target)] = [name, int(ts), 2**62, shape]
            else:
                queries[int(target)][2] = int(ts)
        batch = entry.objects
        objects += list(zip(batch.ids.to_list(), batch.ts.tolist(), batch.x.tolist(), batch.y.tolist(), strict=True))
    for name, begin, end, (x1, y1, x2, y2) in queries.values():
        for one, ts, x, y in objects:
            if begin <= ts < end and x1 <= x <= x2 and y1 <= y <= y2:
                found[name, one] += 1
    return found, {one for one, *_ in objects}


def _in_a_thousand_visits(service, cursor, count, rng):
    """Yield what is in the log to somebody who comes back with the last cursor again and again, after some lines each time."""
    left = count
    for visit in range(1_000):
        if visit in (300, 600):
            service.kill_engine()
        wanted = min(rng.randrange(2 * count // 1_000 + 1), left) if visit < 999 else left
        with _connected(service, cursor, close_timeout=0.005) as socket_:  # who leaves does not wait for an answer
            for _ in range(wanted):
                line = json.loads(socket_.recv(timeout=60))
                cursor = line["cursor"]
                yield cursor, line["query"], line["object"]
        left -= wanted


def test_nothing_acknowledged_is_lost_and_nothing_comes_twice(tmp_path):
    """Engine and service are killed in mid-stream, again and again, while a client publishes and others reconnect at random."""
    state, rng = tmp_path / "state", random.Random(1)
    acknowledged: list[str] = []
    received: list[tuple[str, str, str]] = []
    topology = CONF / "quickstart.toml"
    saved = f"topology.checkpoint.directory={state / 'checkpoints'}"
    overrides = ("--set", saved, "--set", "topology.checkpoint.seconds=0.3")
    cursor = None
    for life in range(2):
        with served(topology, tmp_path, *overrides, state=state) as service:
            service.until_ready()
            if life == 0:
                for n in range(20):
                    x, y = rng.uniform(-10, 8), rng.uniform(-10, 8)
                    body = {"type": "range", "region": {"rect": [x, y, x + rng.uniform(1, 9), y + rng.uniform(1, 9)]}}
                    assert service.http.put(f"/queries/q{n}", json=body).status_code == 201
                cursor = first = service.http.get("/position").json()["cursor"]
            else:
                assert service.http.get("/queries/q7").status_code == 200
            stop = threading.Event()

            def publish(service=service, life=life, stop=stop):
                places = random.Random(life)
                for batch in range(60):
                    names = [f"{life}-{batch}-{n}" for n in range(20)]
                    lines = [
                        json.dumps({"id": one, "x": places.uniform(-10, 10), "y": places.uniform(-10, 10)})
                        for one in names
                    ]
                    try:
                        assert service.publish(lines)["accepted"] == 20
                    except httpx.TransportError:
                        return  # killed: whether these are in, nobody was told
                    acknowledged.extend(names)
                    if stop.wait(0.01):
                        return

            publisher = threading.Thread(target=publish)
            publisher.start()
            killed = 0
            until = time.monotonic() + 4
            while time.monotonic() < until:
                try:
                    with _connected(service, cursor) as socket_:
                        for _ in range(rng.randrange(1, 150)):
                            line = json.loads(socket_.recv(timeout=0.5))
                            cursor = line["cursor"]
                            received.append((cursor, line["query"], line["object"]))
                except (TimeoutError, ConnectionClosed):
                    pass
                if killed < 2 and rng.random() < 0.3:
                    killed += 1
                    service.kill_engine()
            stop.set()
            publisher.join()
            if life < 1:
                service.kill()
                continue
            expected, journalled = _matches(state / "journal")
            with _connected(service, cursor) as socket_:
                while len(received) < sum(expected.values()):
                    line = json.loads(socket_.recv(timeout=60))
                    cursor = line["cursor"]
                    received.append((cursor, line["query"], line["object"]))
            time.sleep(0.5)
            with _connected(service, cursor) as socket_, pytest.raises(TimeoutError):
                socket_.recv(timeout=0.3)
            assert list(_in_a_thousand_visits(service, first, len(received), rng)) == received
    assert set(acknowledged) <= journalled
    assert len(acknowledged) > 200
    assert len({cursor for cursor, _, _ in received}) == len(received)
    assert Counter((query, one) for _, query, one in received) == expected


@pytest.mark.ray
def test_a_service_on_ray_loses_nothing_with_its_engine(tmp_path):
    """With the tasks on Ray, and the engine killed between two publishes, a subscriber gets each match once."""
    state, rng = tmp_path / "state", random.Random(2)
    with served(CONF / "quickstart.toml", tmp_path, "--runtime", "ray", state=state) as service:
        service.until_ready()
        for n in range(8):
            x, y = rng.uniform(-10, 4), rng.uniform(-10, 4)
            body = {"type": "range", "region": {"rect": [x, y, x + 6, y + 6]}}
            assert service.http.put(f"/queries/q{n}", json=body).status_code == 201
        received: list[tuple[str, str]] = []
        cursor = service.http.get("/position").json()["cursor"]
        for part in range(2):
            lines = [
                json.dumps({"id": f"{part}-{n}", "x": rng.uniform(-10, 10), "y": rng.uniform(-10, 10)})
                for n in range(60)
            ]
            assert service.publish(lines)["accepted"] == 60
            expected, _ = _matches(state / "journal")
            with _connected(service, cursor) as socket_:
                while len(received) < sum(expected.values()):
                    line = json.loads(socket_.recv(timeout=120))
                    cursor = line["cursor"]
                    received.append((line["query"], line["object"]))
            assert Counter(received) == expected
            if part == 0:
                service.kill_engine()
        with _connected(service, cursor) as socket_, pytest.raises(TimeoutError):
            socket_.recv(timeout=0.5)


def test_an_expired_cursor_is_an_error(tmp_path):
    """Beyond what is retained a client is told so, by SSE and by WebSocket."""
    state = tmp_path / "state"
    with served(CONF / "quickstart.toml", tmp_path, state=state) as service, Client(service.url) as client:
        service.until_ready()
        client.register("q", type="range", region={"rect": [0, 0, 1, 1]})
        position = client.position()
        client.publish([_at(0.5, 0.5)])
        first = next(client.results("q", cursor=position))
        client.close()
        service.kill()
    (path,) = (state / "results").glob("*.log")
    path.rename(path.with_name(f"{10**6:020}.log"))  # as if all before had been trimmed
    (state / "service.state").unlink(missing_ok=True)
    for checkpoint in (state / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)
    with served(CONF / "quickstart.toml", tmp_path, state=state) as service, Client(service.url) as client:
        answer = service.http.get("/results", headers={"Last-Event-ID": first.cursor})
        assert answer.status_code == 410
        assert answer.json()["type"] == "urn:waterspout:expired-cursor"
        with pytest.raises(ExpiredCursorError):
            next(client.results("q", cursor=first.cursor))
