"""``compare`` and ``report``: one page about runs, which needs nothing else; and ``plot`` from the command line."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.comparison import compare
from reports.page import compared_page
from topology.toml import load_topology

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
HOTSPOT = 'kind="condense", at=[-97.5, 35.4], strength=0.4, start="2001-06-28T05:40:00"'
FEW = ("--set", "spout.objects.limit=500", "--set", "topology.epoch.objects=100")


class Tags(HTMLParser):
    """Which tags a page has, with their attributes, and that they are closed in order."""

    VOID = frozenset({"meta", "br", "use", "path"})

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def waterspout(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "waterspout", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def check_page(text):
    """A page is well-formed, says what its pictures show, and fetches nothing."""
    tags = Tags(text)
    assert not tags.open
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.found}
    outside = [
        value for _, attrs in tags.found for name, value in attrs.items() if name in ("src", "href", "xlink:href")
    ]
    assert all(value.startswith("#") for value in outside)
    pictures = [attrs for tag, attrs in tags.found if tag == "svg"]
    assert pictures
    assert all(one["role"] == "img" and len(one["aria-label"]) > 20 for one in pictures)
    assert dict(tags.found)["html"]["lang"] == "en"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A static and an adaptive topology on a hotspot, from the command line."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    said = waterspout(
        "compare",
        CONF / "tornado-static.toml",
        CONF / "tornado.toml",
        *FEW,
        "--inject",
        HOTSPOT,
        "--seeds",
        2,
        "--out",
        path,
    )
    assert "all answers are equal" in said
    return path.read_text("utf-8")


def test_compared_topologies_are_one_page(page):
    """It has both, with medians and intervals, says that answers are equal, and shades the hotspot."""
    check_page(page)
    assert "All answers are equal" in page
    assert re.search(
        r"<th scope='row'>throughput, objects/s</th><td>[\d,]+<small>[\d,]+ to [\d,]+</small></td><td>", page
    )
    for said in ("tornado-static", "condense from object", "communication", "queries moved", "hotspot", "--seeds 2"):
        assert said in page
    assert "All evaluators took turns in one process" in page


def test_answers_that_differ_are_said_so():
    """Another limit is another input: the page must not look like a comparison of the same work."""
    settings = ["topology.epoch.objects=100"]
    topologies = {
        "few": load_topology(CONF / "quickstart.toml", [*settings, "spout.objects.limit=150"]),
        "more": load_topology(CONF / "quickstart.toml", [*settings, "spout.objects.limit=200"]),
    }
    found = compare(topologies, 1)
    assert not found.equal
    assert found.contenders[0].answers.count < found.contenders[1].answers.count
    assert "The answers differ" in compared_page(found, "", "")


def test_lists_are_equal_however_the_stream_is_cut():
    """Changes within an epoch may be one line; what stands at the end is compared."""
    topologies = {
        str(size): load_topology(CONF / "dynamic.toml", ["spout.objects.limit=400", f"topology.epoch.objects={size}"])
        for size in (40, 100)
    }
    found = compare(topologies, 1)
    assert found.equal
    assert found.contenders[0].answers.count > 50


def test_one_run_is_a_page_and_pictures(tmp_path):
    """From the files that ``run`` writes: a report, the load, the alerts on a map, and the plan of the topology."""
    summary, results = tmp_path / "run.json", tmp_path / "alerts.jsonl"
    waterspout(
        "run", CONF / "tornado.toml", *FEW, "--inject", HOTSPOT, "--summary", summary, "--results", results, "--quiet"
    )
    spot = json.loads(summary.read_text())["hotspots"][0]
    assert 0 < spot["from"] < spot["to"] == json.loads(summary.read_text())["objects"]  # not of the whole input
    waterspout("report", summary, "--out", tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text("utf-8")
    check_page(text)
    assert "A run of tornado" in text
    assert "evaluator[3]" in text
    waterspout("plot", results, "--topology", CONF / "tornado.toml", "--out", tmp_path / "alerts.png")
    waterspout("plot", CONF / "tornado.toml", "--out", tmp_path / "plan.png")
    waterspout("plot", summary, summary.rename(tmp_path / "other.json"), "--out", tmp_path / "a.png", code=2)
    waterspout("plot", tmp_path / "other.json", "--out", tmp_path / "load.png")
    for name in ("alerts.png", "plan.png", "load.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_pages_refuse_what_they_cannot_show(tmp_path):
    """Other queries, queries that cannot be answered, no summary, one of another version, a name that is no page."""
    out = tmp_path / "a.html"
    static, nearest = CONF / "tornado-static.toml", CONF / "dkm.toml"
    assert "give one file to all with --queries" in waterspout("compare", static, nearest, "--out", out, code=2)
    queries = ROOT / "examples/data/nearest.jsonl.gz"
    said = waterspout("compare", static, nearest, "--queries", queries, *FEW, "--out", out, code=2)
    assert "tornado-static could not use" in said
    assert "continuous knn queries are not answered here" in said
    assert "two or more topologies" in waterspout("compare", static, "--out", out, code=2)
    assert "is given twice" in waterspout("compare", static, static, "--out", out, code=2)
    assert "no name for a page" in waterspout("compare", static, nearest, "--out", tmp_path / "a.pdf", code=2)
    assert "no such file" in waterspout("report", tmp_path / "none.json", "--out", out, code=2)
    (tmp_path / "old.json").write_text('{"objects": 1, "queries": 1, "results": 1}')
    assert "another version of waterspout" in waterspout("report", tmp_path / "old.json", "--out", out, code=2)
    (tmp_path / "r.jsonl").write_text("")
    assert "--topology is needed" in waterspout("plot", tmp_path / "r.jsonl", "--out", tmp_path / "a.png", code=2)
    assert "has no plan" in waterspout("plot", CONF / "quickstart.toml", "--out", tmp_path / "a.png", code=2)
    assert not out.exists()
