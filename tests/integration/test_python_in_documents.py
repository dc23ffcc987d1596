"""The Python in the documents runs."""

import re
import sys
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    p
    for p in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
    if "```python" in p.read_text("utf-8")
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_documents_runs(document, tmp_path, monkeypatch):
    """The blocks of a document run one after the other at the top of the repository, and so do the tests in them."""
    text = document.read_text("utf-8")
    module = ModuleType("document")
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(sys.modules, "document", module)
    for found in re.finditer(r"^```python\n(.*?)^```", text, flags=re.M | re.S):
        line = text.count("\n", 0, found.start(1))
        exec(compile("\n" * line + found[1], str(document), "exec"), module.__dict__)
    for name, test in list(vars(module).items()):
        if name.startswith("test_"):
            test(**({"tmp_path": tmp_path} if signature(test).parameters else {}))
