"""Somebody who watches a live view, in a process of its own: a browser with the page, or a WebSocket client that only reads.

    python -m benchmarks.view_reader http://127.0.0.1:8765/ 10 /usr/bin/chromium

prints one JSON object: how many frames came in a second, how large they were, and, of a page, what share of a core it took and
how often it drew.
"""

import importlib.util
import json
import shutil
import sys
import time
from typing import Any

__all__ = ["browser", "main"]

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")
#: How long the run may take to begin.
PATIENCE_SECONDS = 300.0

#: Counts in the page what comes over its socket, from before its own script on.
COUNTING = """
    window.counted = { frames: 0, bytes: 0 };
    const Socket = window.WebSocket;
    window.WebSocket = class extends Socket {
        constructor(...given) {
            super(...given);
            this.addEventListener("message", ({ data }) => {
                counted.bytes += data.byteLength;
                counted.frames += new TextDecoder().decode(new Uint8Array(data, 8, 24)).includes('"tick"') ? 1 : 0;
            });
        }
    };
"""
COUNTED = "() => ({ ...window.counted, pictures: window.waterspout.pictures })"


def browser() -> tuple[str | None, str]:
    """Return the browser to use; where there is none, None and the reason."""
    if importlib.util.find_spec("playwright") is None:
        return None, "playwright is not installed"
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found, "" if found else f"none of {', '.join(NAMES)} is on the PATH"


def _rates(seconds: float, frames: float, size: float) -> dict[str, float]:
    return {"frames_per_s": frames / seconds, "kb_per_frame": size / 1_024 / max(frames, 1)}


def by_socket(address: str, seconds: float) -> dict[str, float]:
    """Read frames as a page does, and do nothing with them."""
    from websockets.sync.client import connect

    with connect(address.replace("http", "ws", 1) + "view/live", max_size=None, compression=None) as socket:
        _until_objects(socket)
        began, frames, size = time.perf_counter(), 0, 0
        while (spent := time.perf_counter() - began) < seconds:
            frame = socket.recv()
            frames, size = frames + (b'"tick"' in frame[8:32]), size + len(frame)
    return _rates(spent, frames, size)


def _until_objects(socket: Any) -> None:
    from service.view.frames import decode_frame

    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        header, _ = decode_frame(socket.recv(timeout=PATIENCE_SECONDS))
        if header["frame"] == "tick" and header["objects"]:
            return


def by_page(address: str, seconds: float, chromium: str) -> dict[str, float]:
    """Look at the page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = made.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_SECONDS * 1e3)
        page.add_init_script(COUNTING)
        page.goto(address)
        until = time.monotonic() + PATIENCE_SECONDS
        while not page.evaluate("() => window.waterspout?.run.tick?.objects > 0") and time.monotonic() < until:
            page.wait_for_timeout(200)
        told = made.new_browser_cdp_session()

        def now() -> dict[str, float]:
            processes = told.send("SystemInfo.getProcessInfo")["processInfo"]
            worked = sum(one["cpuTime"] for one in processes if one["type"] in ("renderer", "GPU"))
            return {"seconds": time.perf_counter(), "worked": worked, **page.evaluate(COUNTED)}

        before = now()
        page.wait_for_timeout(seconds * 1e3)
        after = now()
        made.close()
    found = {name: after[name] - before[name] for name in before}
    spent = found["seconds"]
    return _rates(spent, found["frames"], found["bytes"]) | {
        "page_share": found["worked"] / spent,
        "page_pictures_per_s": found["pictures"] / spent,
    }


def main(address: str, seconds: str, reader: str) -> None:
    """Watch, and print what was seen."""
    seen = by_socket(address, float(seconds)) if reader == "websocket" else by_page(address, float(seconds), reader)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
