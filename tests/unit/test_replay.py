"""The replay of the demo: an endless stream whose parts fit together, and what hotspots make of it."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from service.demo.replay import Replay, hotspot_injections, hotspot_queries, standing_queries
from service.view.controls import HOTSPOTS, Hotspot
from streams.errors import DeclarationError
from streams.geometry import Rect

DATA = Path(__file__).parents[2] / "examples" / "data"
SPACE = Rect(-126.0, 23.0, -65.0, 50.5)
LAP_MS = 10_000


@pytest.fixture(scope="module")
def replay():
    """Earthquakes, each sent twice."""
    return Replay.of_files([DATA / "earthquakes_week.csv.gz"], LAP_MS, 2, SPACE)


def sent(replay, begin, end, *hotspots):
    """Return what is sent, as records."""
    injections = [one for hotspot, now, number in hotspots for one in hotspot_injections(hotspot, now, number)]
    return [json.loads(line) for line in replay.between(begin, end, injections).splitlines()]


def test_parts_of_a_replay_fit_together(replay):
    """However time is cut, across the end of a lap too, the same is sent once; all of it is in the space."""
    whole = sent(replay, 0, 25_000)
    cuts = [0, 1, 700, 9_999, 10_000, 10_001, 17_000, 25_000]
    assert [one for a, b in itertools.pairwise(cuts) for one in sent(replay, a, b)] == whole
    assert len({one["id"] for one in whole}) == len(whole)
    assert len(sent(replay, 0, LAP_MS)) == len(replay.place)
    assert all(SPACE.min_x <= one["lon"] <= SPACE.max_x and SPACE.min_y <= one["lat"] <= SPACE.max_y for one in whole)


@pytest.mark.parametrize("kind", ["objects", "rate", "condense"])
def test_hotspot_changes_what_is_sent_while_it_is_on(replay, kind):
    """A crowd comes to its place, a rate multiplies, what drifts comes nearer; before and after all is as it was."""
    hotspot = Hotspot(kind, -100.0, 40.0, 0.8 if kind == "condense" else 3.0, 1.5, 2.0)
    on = [(hotspot, 4_000, 1)]
    assert sent(replay, 0, 4_000, *on) == sent(replay, 0, 4_000)
    assert sent(replay, 6_000, 9_000, *on) == sent(replay, 6_000, 9_000)
    before, during = sent(replay, 4_000, 6_000), sent(replay, 4_000, 6_000, *on)
    near = [one for one in during if abs(one["lon"] + 100) <= 1.5 and abs(one["lat"] - 40) <= 1.5]
    if kind == "condense":
        assert len(during) == len(before)
        far = [np.hypot(one["lon"] + 100, one["lat"] - 40) for one in during]
        assert np.mean(far) < 0.25 * np.mean([np.hypot(one["lon"] + 100, one["lat"] - 40) for one in before])
    else:
        assert 3.4 * len(before) < len(during) < 4.6 * len(before)
        assert (len(near) > 2.4 * len(before)) == (kind == "objects")
    assert {one["text"] for one in during} == {one["text"] for one in before}
    assert len({one["id"] for one in during}) == len(during)


def test_hotspot_of_questions_asks_around_its_place():
    """As many as it says, at its place and within the space, for as long as it lasts."""
    patterns = standing_queries(DATA / "subscriptions.jsonl.gz", SPACE)
    assert len(patterns) > 2_000
    assert len(dict(patterns)) == len(patterns)
    hotspot = Hotspot("queries", -126.0, 23.0, 300.0, 2.0, 5.0)
    asked = dict(hotspot_queries(hotspot, patterns, 4, SPACE))
    assert len(asked) == 300
    assert hotspot_injections(hotspot, 0, 4) == []
    for body in asked.values():
        assert body["ttl"] == 5_000
        region = body["region"]
        x, y = region["circle"][:2] if "circle" in region else region["rect"][:2]
        assert -126.0 <= x <= -123.9
        assert 23.0 <= y <= 25.1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "expected an object"),
        ({"kind": "objcts"}, "did you mean 'objects'"),
        ({"kind": "objects", "x": -300, "y": 30, "strength": 2}, "x = -300"),
        ({"kind": "objects", "x": -100, "y": None, "strength": 2}, "y = "),
        ({"kind": "condense", "x": -100, "y": 30, "strength": 2}, "from 0 to 0.95"),
        ({"kind": "rate", "x": -100, "y": 30, "strength": True}, "strength = True"),
        ({"kind": "rate", "x": -100, "y": 30, "strength": float("nan")}, "strength = nan"),
        ({"kind": "rate", "x": -100, "y": 30, "strength": 2, "seconds": 1e9}, "seconds"),
    ],
)
def test_hotspot_that_cannot_be_is_refused(given, said):
    """With what was found and what is expected."""
    with pytest.raises(DeclarationError, match=said):
        Hotspot.of(given, SPACE)


def test_hotspot_has_a_usual_size_and_duration():
    """Where a request does not say."""
    for kind, most in HOTSPOTS.items():
        hotspot = Hotspot.of({"kind": kind, "x": -100, "y": 30, "strength": most}, SPACE)
        assert 0 < hotspot.radius < 5
        assert hotspot.seconds == 20.0
