"""What the documents name is there: files, modules and what is in them, links and their headings."""

import ast
import re
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from topology.declaration import Settings

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
PACKAGES = (
    "streams",
    "partitioners",
    "operators",
    "topology",
    "pipeline",
    "benchmarks",
    "reports",
    "service",
    "examples",
    "tests",
)
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

#: Words that are modules here, but also what the examples call a value, or a key of a topology file.
VALUES = {"plan", "summary", "window"}

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def spans(document):
    """Return what stands in backticks in the prose of a document, without its blocks of code."""
    prose = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", prose)


@cache
def names_in(path):
    """Return what a module defines, or imports, at its top, and the methods and fields of its classes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            found.update(ast.literal_eval(node.value))
    return found


def module_of(parts):
    """Return the file of a package's or a module's name, or None."""
    folder = ROOT.joinpath(*parts)
    return next((path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.is_file()), None)


def is_there(dotted):
    """Tell whether a dotted name that begins with a package leads to something."""
    parts = dotted.split(".")
    if parts[0] == "topology" and is_setting(Settings, parts[1:]):
        return True
    known = next(n for n in range(len(parts), 0, -1) if module_of(parts[:n]))
    rest = parts[known:]
    return all(name in names_in(module_of(parts[:known])) for name in rest[:1])


def is_setting(table, keys):
    """Tell whether keys lead to a setting of a topology file."""
    if not keys:
        return True
    if keys[0] not in (hints := get_type_hints(table)):
        return False
    kinds = get_args(hints[keys[0]]) or (hints[keys[0]],)
    return len(keys) == 1 or any(is_setting(kind, keys[1:]) for kind in kinds if is_dataclass(kind))


@documents
def test_documents_name_files_that_exist(document):
    """A path in backticks leads to a file, from the top of the repository, from the document, or from a package."""
    text = "\n".join(spans(document))
    paths = re.findall(r"(?<![\w*/.<-])(?:[\w-]+/)+[\w-]+\.(?:py|toml|md)(?![\w*])", text)
    missing = [name for name in paths if not any((base / name).is_file() for base in (ROOT, document.parent))]
    bare = re.findall(r"(?<![\w*/.<-])\w+\.py(?![\w*:])", text)
    missing += [name for name in bare if not any(path.name == name for path in MODULES)]
    assert missing == []


@documents
def test_documents_name_modules_that_exist(document):
    """A dotted name in backticks leads to a module, and to something in it."""
    inner = "|".join(PACKAGES)
    whole = re.compile(rf"(?<![\w./\[-])(?:{inner})(?:\.[A-Za-z_]\w*)+(?![\w/])")
    named = {name for span in spans(document) for name in whole.findall(span) if not name.endswith((".toml", ".md"))}
    assert sorted(name for name in named if not is_there(name)) == []


@documents
def test_documents_name_functions_that_exist(document):
    """``module.function`` in backticks is a function of a module of that name."""
    missing = []
    for span in spans(document):
        found = re.fullmatch(r"([a-z]\w*)\.([A-Za-z_]\w*)(\(.*\))?", span)
        if found is None or found[2] == "py" or found[1] in (*VALUES, *PACKAGES):
            continue
        files = [
            path for path in MODULES if found[1] in (path.stem, path.parent.name if path.stem == "__init__" else "")
        ]
        if files and not any(found[2] in names_in(path) for path in files):
            missing.append(span)
    assert missing == []


@documents
def test_documents_link_to_what_exists(document):
    """A link to a file of ours has the file, and the heading that it names."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path) if path else document
        if not file.exists():
            broken.append(target)
        elif anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), flags=re.M)
            slugs = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
            if anchor not in slugs:
                broken.append(target)
    assert broken == []
