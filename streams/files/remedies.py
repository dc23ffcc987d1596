"""Files that are no input as they are, and the commands that make one of them."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote

__all__ = [
    "DECIMAL_COMMA",
    "DECIMAL_POINT",
    "REMEDIES",
    "commas_name",
    "compression_of",
    "lines_command",
    "lines_name",
    "separator_remedy",
]

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def compression_of(path: str) -> str | None:
    """Tell by a file's ending how it is compressed, be its format known or not."""
    return _COMPRESSIONS.get(Path(path).suffix.lower())


#: A field that is a number with a decimal comma, and what it becomes: where semicolons separate, commas are decimal.
DECIMAL_COMMA, DECIMAL_POINT = r"^(-?[0-9]+),([0-9]+)\Z", r"\1.\2"


def separator_remedy(path: str, separator: str, encoding: str = "latin-1") -> str:
    """Say how fields that are separated by something else become fields that are separated by commas.

    As latin-1, all bytes of most encodings, UTF-8 among them, come out as they went in.
    """
    rows, used = f"csv.reader(sys.stdin, delimiter={separator!r})", "csv, sys"
    if separator == ";":
        fields = f"[re.sub(r'{DECIMAL_COMMA}', r'{DECIMAL_POINT}', one) for one in row]"
        rows, used = f"{fields} for row in {rows}", "csv, re, sys"
    command = f'PYTHONIOENCODING={encoding} python3 -c "import {used}; csv.writer(sys.stdout).writerows({rows})"'
    return f"make commas of them: {_fed(command, path)} > {commas_name(path)}"


def commas_name(path: str) -> str:
    """Return the name under which a file with commas is written; never that of the file itself."""
    return "commas.csv" if Path(path).name != "commas.csv" else "more-commas.csv"


def _fed(command: str, path: str) -> str:
    """Return a command that reads a file, decompressed, from its standard input."""
    unpacked = {".gz": "gunzip -c", ".zst": "zstd -dc"}.get(Path(path).suffix.lower())
    if unpacked is None:
        return f"{command} < {quote(path)}"
    encoding, _, program = command.rpartition("python3")
    return f"{unpacked} {quote(path)} | {encoding}python3{program}"


def _lines_remedy(path: str) -> str:
    return f"expected .jsonl, a JSON object a line; of an array, or of a collection of GeoJSON, make one: {lines_command(path)}"


def lines_command(path: str) -> str:
    """Return the command that makes a file of JSON lines of an array, or of a collection of GeoJSON."""
    each = "[print(json.dumps(one)) for one in (whole if isinstance(whole, list) else whole['features'])]"
    command = _fed(f'python3 -c "import json, sys; whole = json.load(sys.stdin); {each}"', path)
    return f"{command} > {quote(lines_name(path))}"


def lines_name(path: str) -> str:
    """Return the name under which the file is written that is proposed in place of one of JSON as a whole; never its own."""
    name = Path(path).name
    stem = re.sub(r"\.(json|geojson|jsonl|ndjson)(\.gz|\.zst)?$", "", name, flags=re.I)
    return f"{stem}-lines.jsonl" if name == f"{stem}.jsonl" else f"{stem}.jsonl"


_TAB = "\t"

#: Endings of files that are no input as they are, and how to make one of them.
REMEDIES: Mapping[str, Callable[[str], str]] = {
    ".tsv": lambda path: f"its fields are separated by tabs; {separator_remedy(path, _TAB)}",
    ".json": _lines_remedy,
    ".geojson": _lines_remedy,
    ".txt": lambda _: (
        "rename it: .csv, where it has columns under a header, or .jsonl, where it has a JSON object a line"
    ),
    ".xlsx": lambda _: "a workbook; save the sheet as CSV UTF-8 (comma separated)",
    ".xls": lambda _: "a workbook; save the sheet as CSV UTF-8 (comma separated)",
    ".bz2": lambda path: f"unpack it: bunzip2 -k {quote(path)}",
    ".xz": lambda path: f"unpack it: xz -dk {quote(path)}",
    ".zip": lambda path: f"an archive; unpack it: unzip {quote(path)}",
}
