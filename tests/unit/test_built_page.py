"""The built page of the live view belongs to its sources, and needs nothing from elsewhere."""

import hashlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "service" / "view" / "page"
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.mjs")


def test_built_page_belongs_to_its_sources():
    """Who changes the page builds it, too (make page)."""
    files = sorted([*SOURCES, *(f"src/{path.name}" for path in (PAGE / "src").iterdir())])
    digest = hashlib.sha256()
    for name in files:
        digest.update(name.encode() + b"\0" + (PAGE / name).read_bytes() + b"\0")
    assert (PAGE / "dist" / "sources.sha256").read_text().strip() == digest.hexdigest(), "build the page: make page"


def test_built_page_loads_nothing_from_elsewhere():
    """Scripts, styles and pictures are its own: it works without a network."""
    html = (PAGE / "dist" / "index.html").read_text("utf-8")
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', html)
    assert {"/view/page/view.js", "/view/page/index.css"} <= set(loaded)
    assert all(name.startswith(("/view/page/", "data:")) for name in loaded)
    assert re.findall(r"url\((?!data:)[^)]*\)|@import", (PAGE / "dist" / "index.css").read_text("utf-8")) == []
    assert "MIT License" in (PAGE / "dist" / "LICENSES.txt").read_text("utf-8")
