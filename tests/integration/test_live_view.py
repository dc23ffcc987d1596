"""The page of the live view in a browser: the demo, a hotspot that moves partitions, the past, and a run that fails."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser: pip install playwright")

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
#: How long anything on the page may take on a machine that is busy with other tests.
PATIENCE_MS = 90_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: apt-get install chromium")

#: A place where hardly anything happens, in a large partition.
QUIET_PLACE = (-104.5, 47.0)

FAILING = """
from operators.operator import Bolt

class Breaks(Bolt):
    outputs = {}

    def execute_epoch(self, epoch, inputs, emit):
        if epoch.number == 20:
            raise ValueError("a bolt that always breaks here")
"""


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests."""
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture
def page(browser, started):
    """A page in which nothing may go wrong unseen; it is closed before what it shows is ended."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, color_scheme="dark")
    made = context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    problems = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    yield made
    context.close()
    assert problems == []


@pytest.fixture
def started():
    """Start the command, return its address when it has said it, and end it as Ctrl-C does."""
    running = []

    def start(*arguments, cwd=ROOT):
        process = subprocess.Popen(
            [sys.executable, "-m", "waterspout", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        running.append(process)
        said = ""
        for line in process.stdout:
            said += line
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                return found[0]
        raise AssertionError(said)

    yield start
    for process in running:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        finally:
            process.kill()


COLOURS = """() => {
    const canvas = document.getElementById("map");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const found = new Set();
    for (let i = 0; i < data.length; i += 4 * 37) found.add((data[i] >> 4) << 8 | (data[i + 1] >> 4) << 4 | data[i + 2] >> 4);
    return found.size;
}"""

#: The part of the space that the partition at a place has.
PART = """([x, y]) => {
    const { map } = window.waterspout, p = map.projection, area = map.areaAt(p.x(x), p.y(y));
    return area === null ? null : (area.box[2] - area.box[0]) * (area.box[3] - area.box[1]);
}"""


def wait(page, condition, arg=None):
    """Wait until a function of the page returns something true; a policy of the page forbids to send it strings to run."""
    for _ in range(PATIENCE_MS // 250):
        if page.evaluate(condition, arg):
            return
        page.wait_for_timeout(250)
    raise AssertionError(f"in vain: {condition}")


def test_demo_shows_partitions_that_move_to_a_hotspot_and_its_past(page, started):
    """The map is not blank; a crowd is put on it by hand, and the partition there shrinks; one can go back to before."""
    page.goto(started("live", "--port", "0"))
    wait(page, "() => window.waterspout.run.state === 'running' && window.waterspout.map?.plan?.areas.length === 8")
    wait(page, "() => window.waterspout.run.rate.objects > 200 && window.waterspout.map.samples > 250")
    page.click("#world")
    page.wait_for_timeout(1_500)
    assert page.evaluate(COLOURS) > 60
    assert page.locator("#evaluators li").count() == 8
    before = page.evaluate(PART, QUIET_PLACE)
    began = page.evaluate("window.waterspout.run.now")

    box = page.locator("#map").bounding_box()
    x, y = page.evaluate(
        "([x, y]) => { const p = window.waterspout.map.projection; return [p.x(x), p.y(y)]; }", QUIET_PLACE
    )
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.get_by_label("Strength").fill("12")
    page.get_by_role("button", name="Put it here").click()
    page.get_by_text("hotspot: a crowd gathers").wait_for()
    wait(page, f"(place) => ({PART})(place) < {before / 3}", QUIET_PLACE)
    wait(page, f"() => window.waterspout.run.events.some((one) => one.what === 'move' && one.t > {began})")

    page.evaluate(
        """(t) => {
            const scrubber = document.getElementById("scrubber"), last = window.waterspout.run.now;
            scrubber.value = 1000 * t / Math.max(last, 20);
            scrubber.dispatchEvent(new Event("input"));
        }""",
        began,
    )
    wait(page, "() => window.waterspout.past !== null")
    wait(page, f"(place) => ({PART})(place) > {before / 2}", QUIET_PLACE)
    assert page.evaluate(COLOURS) > 40
    page.click("#live")
    wait(page, "() => window.waterspout.past === null")

    page.locator("#evaluators").get_by_role("button", name="Kill this worker").first.click()
    page.get_by_text("recovered: results again").wait_for()
    for key in ("h", "ArrowDown", "Enter"):  # another kind is chosen, and put there, without a mouse
        page.keyboard.press(key)
    page.get_by_text("hotspot: everything drifts").wait_for()
    page.locator("#events .move button").first.click()
    page.locator("#caption").get_by_text("the policy says").wait_for()


def test_page_shows_what_a_run_has_failed_with(page, started, tmp_path):
    """And the map of what it has done stays; the command itself shows the page until it is stopped."""
    (tmp_path / "breaks.py").write_text(FAILING)
    (tmp_path / "failing.toml").write_text(
        f'''extends = "{ROOT}/conf/tornado.toml"
[bolt.breaks]
operator = "breaks.py:Breaks"
inputs = [{{ component = "objects", stream = "objects", grouping = "global" }}]
'''
    )
    page.goto(started("run", tmp_path / "failing.toml", "--watch", "--quiet"))
    notice = page.locator("#notice")
    notice.get_by_text("The run has failed").wait_for()
    assert "a bolt that always breaks here" in notice.inner_text()
    assert page.locator("#state").inner_text() == "failed"
    assert notice.get_attribute("role") == "alert"
    wait(page, "() => window.waterspout.map?.plan?.areas.length === 4")
    assert page.evaluate(COLOURS) > 20
