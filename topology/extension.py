"""Topology files that extend each other: ``extends = "FILE"`` above the first table.

What a file says wins over the same key of what it extends: tables are merged key by key, all else (lists too) is replaced
whole. ``without = ["bolt.balancer"]`` names keys of the extended file that are not taken over. Relative paths mean what they
mean in the file that has them, so a variant may stand in another folder than what it varies.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streams.errors import DeclarationError, InputError, brief, did_you_mean
from topology.extended_paths import with_moved_options, with_moved_references
from topology.key_lines import KeyLines

__all__ = ["EXTENDS", "WITHOUT", "Layer", "Places", "layers_of", "merged", "topology_text"]

EXTENDS, WITHOUT = "extends", "without"

#: How large a topology file may be, how long the path of one in another, and how many files may extend each other.
MAX_BYTES = 16 << 20
MAX_PATH = 1_000
MAX_FILES = 16

#: Endings of what is easily given in place of a topology.
_DATA = (".csv", ".jsonl", ".ndjson", ".json")

_LONG_NUMBER = re.compile(r"[0-9_]{4301}")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")
Tables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """One file of a chain of extensions.

    Attributes:
        source: the file, for messages.
        tables: what it says.
        folder: where its relative paths start from, seen from the folder of the first file.
        removed: the keys of what it extends that it does without.
    """

    source: str
    text: str
    tables: Tables
    folder: Path
    removed: tuple[tuple[str, ...], ...] = ()


def topology_text(path: Path) -> str:
    """Return the text of a topology file."""
    try:
        with path.open("rb") as file:  # read to the limit: the size that a file system reports need not be true
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"{path}: more than {MAX_BYTES:,} bytes are too many for a topology")
        return data.decode()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of a topology file (TOML)") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give the path of a topology file (TOML)") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a topology file (TOML, UTF-8): {error}") from None


def layers_of(text: str, source: str, base: Path | None) -> tuple[Layer, ...]:
    """Return a file and all that it extends, itself first; `base` is the folder that it stands in."""
    layers: list[Layer] = []
    seen = {os.path.realpath(source): source}
    folder = Path()
    while True:
        tables = _parsed(text, source)
        extends, without = tables.pop(EXTENDS, None), tables.pop(WITHOUT, None)
        layers.append(Layer(source, text, tables, folder, _removed(without, extends, text, source)))
        if extends is None:
            return tuple(layers)
        if not isinstance(extends, str) or not 0 < len(extends) <= MAX_PATH or "\0" in extends:
            raise _refused(
                f"found {brief(extends)}, expected the path of a topology file (at most {MAX_PATH:,} characters)",
                text,
                source,
            )
        folder /= Path(extends).parent
        path = (base or Path()) / folder / Path(extends).name
        if (real := os.path.realpath(path)) in seen:
            chain = " -> ".join([*list(seen.values())[list(seen).index(real) :], str(path)])
            raise _refused(
                f"the files extend each other in a circle: {chain}; take one of these keys out", text, source
            )
        if len(layers) == MAX_FILES:
            raise _refused(f"more than {MAX_FILES} files extend each other; put some of them together", text, source)
        try:
            below = topology_text(path)
        except InputError as error:
            raise _refused(f"{error}, relative to the file that extends it", text, source) from None
        seen[real], text, source = str(path), below, str(path)


def _refused(what: str, text: str, source: str, key: str = EXTENDS) -> DeclarationError:
    line = KeyLines(text).of((key,))
    return DeclarationError(f"{source}:{line}: {key}: {what}" if line else f"{source}: {key}: {what}")


def _parsed(text: str, source: str) -> Tables:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DeclarationError(f"{source}: not valid TOML: brackets are nested too deep") from None
    except ValueError as error:
        said = f"{source}: not valid TOML: {_with_line(error, text)}"
        if source.endswith(_DATA):
            said += "; that is data, to be given with --objects or --queries behind the path of a topology file"
        raise DeclarationError(said) from None


def _with_line(error: ValueError, text: str) -> str:
    """Return the parser's words, which name a line; for a number of thousands of digits they do not."""
    if isinstance(error, tomllib.TOMLDecodeError) or (number := _LONG_NUMBER.search(text)) is None:
        return f"{error}{_shown(str(error), text)}"
    return f"a number of more than 4,300 digits (at line {text.count(chr(10), 0, number.start()) + 1})"


def _shown(error: str, text: str) -> str:
    """Return what stands where a parser stopped, and what it most often lacks."""
    if (place := _PLACE.search(error)) is None:
        return ""
    line = text.split("\n")[int(place[1]) - 1]
    quotes = "; strings need quotes" if error.startswith("Invalid value") else ""
    return f": {brief(line[int(place[2]) - 1 :].strip() or line.strip())}{quotes}"


def _removed(without: Any, extends: Any, text: str, source: str) -> tuple[tuple[str, ...], ...]:
    if without is None:
        return ()
    if extends is None:
        raise _refused(
            f"there is nothing to do without; it goes with '{EXTENDS}', the file to take over", text, source, WITHOUT
        )
    if not isinstance(without, list) or not all(isinstance(key, str) and key for key in without):
        raise _refused(f'found {brief(without)}, expected keys, such as ["bolt.balancer"]', text, source, WITHOUT)
    return tuple(tuple(key.split(".")) for key in without)


def merged(layers: Sequence[Layer], base: Path | None) -> Tables:
    """Return what a chain says as a whole."""
    if len(layers) == 1:
        return layers[0].tables
    try:
        return _merged(layers) if all(layer.folder == Path() for layer in layers) else _merged_folders(layers, base)
    except RecursionError:
        raise DeclarationError(f"{layers[0].source}: keys are nested too deep to be merged") from None


def _merged_folders(layers: Sequence[Layer], base: Path | None) -> Tables:
    found = [replace(layer, tables=with_moved_references(layer.tables, layer.folder)) for layer in layers]
    whole = _merged(found)  # which options are paths is known once it is known which operator takes them
    return _merged([replace(one, tables=with_moved_options(one.tables, whole, one.folder, base)) for one in found])


def _merged(layers: Sequence[Layer]) -> Tables:
    tables: Tables = {}
    for layer in reversed(layers):
        for path in layer.removed:
            _remove(tables, path, layer)
        tables = _over(tables, layer.tables)
    return tables


def _over(below: Tables, above: Mapping[str, Any]) -> Tables:
    """Return the keys of two tables; where both have a key that is no table, the one above wins."""
    found = dict(below)
    for key, value in above.items():
        under = below.get(key)
        found[key] = _over(under if isinstance(under, dict) else {}, value) if isinstance(value, dict) else value
    return found


def _remove(tables: Tables, path: tuple[str, ...], layer: Layer) -> None:
    table: Any = tables
    for part in path[:-1]:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict) or path[-1] not in table:
        known = [".".join((*path[:-1], key)) for key in table] if isinstance(table, dict) else list(tables)
        name = ".".join(path)
        raise _refused(
            f"the extended file has no {brief(name)}{did_you_mean(name, known)}", layer.text, layer.source, WITHOUT
        )
    del table[path[-1]]


class Places:
    """Where the keys of a chain stand, for messages."""

    def __init__(self, layers: Sequence[Layer], settings: Sequence[str] = ()) -> None:
        self._files = [(layer.source, KeyLines(layer.text)) for layer in layers]
        self._set = [tuple(part.strip() for part in one.partition("=")[0].split(".")) for one in settings]

    def of(self, path: tuple[str, ...]) -> str:
        """Return file and line of a key: of the file that has most of it, the extending one where two have as much."""
        if any(path[: len(key)] == key for key in self._set):
            return f"{self._files[0][0]}, in a setting"
        for depth in range(len(path), 0, -1):
            for source, lines in self._files:
                line = lines.inside(path) if depth == len(path) else lines.said(path[:depth])
                if line is not None:
                    return f"{source}:{line}"
        return self._files[0][0]
