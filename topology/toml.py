"""Topologies as TOML: the same thing that the builder says, with errors that name file, line and key."""

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from streams.errors import DeclarationError, InputError, did_you_mean
from streams.injection import Injection
from topology.conversion import from_plain, to_plain
from topology.declaration import Component, Input, Settings, Tick, Topology
from topology.validation import InvalidTopologyError, validate

__all__ = ["apply_settings", "dump_topology", "line_of", "load_topology", "parse_topology"]

TABLES = ("topology", "spout", "bolt", "inject")
_COMPONENT_KEYS = ("operator", "parallelism", "inputs", "tick", "streams")
MAX_BYTES = 16 << 20


def load_topology(path: Path, settings: Sequence[str] = (), *, check: bool = True) -> Topology:
    """Read a topology from a file; `settings` are overrides such as ``bolt.evaluator.parallelism=8``.

    Without `check` the parts are looked at but not the whole, for a caller who is about to change it.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: {path.stat().st_size} bytes are too many for a topology (at most {MAX_BYTES})")
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of a topology file (TOML)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a topology file (TOML, UTF-8): {error}") from None
    return parse_topology(text, settings, base=path.parent, source=str(path), check=check)


def parse_topology(
    text: str,
    settings: Sequence[str] = (),
    *,
    base: Path | None = None,
    source: str = "<topology>",
    check: bool = True,
) -> Topology:
    """Make a topology from TOML text, and check it."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DeclarationError(f"{source}: not valid TOML: {error}") from None
    try:
        apply_settings(tables, settings)
        topology = _from_tables(tables, base)
        if check:
            validate(topology)
    except InvalidTopologyError as error:
        located = (_located(problem, text, source) for problem in error.problems)
        raise DeclarationError("\n".join(located)) from None
    except DeclarationError as error:
        raise DeclarationError(_located(error, text, source)) from None
    return topology


def _located(error: DeclarationError, text: str, source: str) -> str:
    line = line_of(text, error.path)
    return f"{source}:{line}: {error}" if line else f"{source}: {error}"


_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\]#]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*(?P<key>[A-Za-z0-9_."'-]+(\s*\.\s*[A-Za-z0-9_"'-]+)*)\s*=""")


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Return the line on which a key stands, or else the table it would stand in; None for neither."""
    best, best_depth = None, 0
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            found = table = _split(header["name"])
        elif key := _KEY.match(line):
            found = table + _split(key["key"])
        else:
            continue
        depth = min(len(found), len(path))
        if depth > best_depth and path[:depth] == found[:depth]:
            best, best_depth = number, depth
    return best


def _split(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def apply_settings(tables: dict[str, Any], settings: Sequence[str]) -> None:
    """Override keys: each setting is ``a.b.c=value``, the value as TOML has it; what is not TOML is a string."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        path = tuple(part.strip() for part in key.split("."))
        if not equals or not all(path):
            raise DeclarationError(f"--set '{setting}': expected key=value, such as bolt.evaluator.parallelism=8")
        table = tables
        for i, part in enumerate(path[:-1]):
            if path[0] in ("spout", "bolt") and i == 1 and part not in table:
                hint = did_you_mean(part, table)
                raise DeclarationError(
                    f"--set '{setting}': there is no {path[0]} '{part}'{hint}; there are: {', '.join(table) or 'none'}"
                )
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise DeclarationError(f"--set '{setting}': '{'.'.join(path[: i + 1])}' is a value, not a table")
        try:
            table[path[-1]] = tomllib.loads(f"v = {value}")["v"]
        except tomllib.TOMLDecodeError:
            table[path[-1]] = value


def _from_tables(tables: Mapping[str, Any], base: Path | None) -> Topology:
    for key in tables:
        if key not in TABLES:
            expected = ", ".join(TABLES)
            raise DeclarationError(f"unknown table '{key}'{did_you_mean(key, TABLES)}; expected: {expected}", (key,))
    components: list[Component] = []
    for kind in ("spout", "bolt"):
        for name, keys in _table(tables.get(kind, {}), (kind,)).items():
            if any(component.name == name for component in components):
                raise DeclarationError(f"'{name}' is a spout and a bolt; names are unique", (kind, name))
            components.append(_component(kind, name, _table(keys, (kind, name))))
    settings = from_plain(Settings, _table(tables.get("topology", {}), ("topology",)), ("topology",))
    if settings.vocabulary is not None and base is not None:
        settings = dataclasses.replace(settings, vocabulary=base / settings.vocabulary)
    injected = tables.get("inject", [])
    if not isinstance(injected, list):
        raise DeclarationError(f"found {injected!r}, expected tables [[inject]]", ("inject",))
    injections = tuple(from_plain(Injection, _table(one, ("inject",)), ("inject",)) for one in injected)
    return Topology(settings, tuple(components), injections, base)


def _table(value: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DeclarationError(f"found {value!r}, expected a table", path)
    return value


def _component(kind: Any, name: str, keys: Mapping[str, Any]) -> Component:
    path = (kind, name)
    operator = keys.get("operator")
    if not isinstance(operator, str):
        raise DeclarationError(f"{kind} '{name}' needs an 'operator', the name of what it does", path)
    inputs = keys.get("inputs", [])
    if not isinstance(inputs, list):
        raise DeclarationError(f"found {inputs!r}, expected a list of tables", (*path, "inputs"))
    streams = keys.get("streams")
    return Component(
        name=name,
        kind=kind,
        operator=operator,
        parallelism=keys.get("parallelism", 1),
        inputs=tuple(from_plain(Input, _table(i, (*path, "inputs")), (*path, "inputs")) for i in inputs),
        tick=from_plain(Tick, _table(keys["tick"], (*path, "tick")), (*path, "tick")) if "tick" in keys else None,
        streams=_streams(streams, (*path, "streams")) if streams is not None else None,
        options={key: value for key, value in keys.items() if key not in _COMPONENT_KEYS},
    )


def _streams(value: Any, path: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    for fields in _table(value, path).values():
        if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
            raise DeclarationError(f"found {fields!r}, expected a list of field names", path)
    return {stream: tuple(fields) for stream, fields in value.items()}


def dump_topology(topology: Topology) -> str:
    """Return a topology as TOML; loading that gives the topology back. Settings at their default are left out."""
    tables: dict[str, Any] = {"topology": _differences(to_plain(topology.settings), to_plain(Settings()))}
    for component in topology.components:
        keys: dict[str, Any] = {"operator": component.operator}
        if component.parallelism != 1:
            keys["parallelism"] = component.parallelism
        if component.inputs:
            keys["inputs"] = [_differences(to_plain(i), to_plain(Input(""))) for i in component.inputs]
        if component.tick is not None:
            keys["tick"] = to_plain(component.tick)
        if component.streams is not None:
            keys["streams"] = to_plain(component.streams)
        tables.setdefault(component.kind, {})[component.name] = {**keys, **to_plain(component.options)}
    if topology.injections:
        tables["inject"] = [to_plain(injection) for injection in topology.injections]
    return tomli_w.dumps(tables)


def _differences(plain: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is as it is by default."""
    kept: dict[str, Any] = {}
    for key, value in plain.items():
        if isinstance(value, dict) and isinstance(default.get(key), dict):
            if inner := _differences(value, default[key]):
                kept[key] = inner
        elif value != default.get(key):
            kept[key] = value
    return kept
