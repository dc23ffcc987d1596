"""Topologies as TOML: the same thing that the builder says, with errors that name file, line and key."""

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from streams.errors import DeclarationError, brief, did_you_mean
from topology.conversion import from_plain, to_plain
from topology.declaration import COMPONENT_KEYS, Component, Input, Settings, Tick, Topology
from topology.disturbances import disturbances
from topology.extension import EXTENDS, WITHOUT, Layer, Places, layers_of, merged, topology_text
from topology.key_lines import KeyLines
from topology.validation import InvalidTopologyError, validate

__all__ = [
    "apply_settings",
    "dump_topology",
    "extended_topology",
    "line_of",
    "load_topology",
    "naming_file",
    "parse_topology",
    "with_settings",
]

TABLES = ("topology", "spout", "bolt", "inject")

#: How many problems of a topology are shown, and at what length each.
MAX_PROBLEMS = 100
MAX_MESSAGE = 2_000

#: How many spouts and bolts there may be.
MAX_COMPONENTS = 10_000


def load_topology(path: Path, settings: Sequence[str] = (), *, check: bool = True) -> Topology:
    """Read a topology from a file; `settings` are overrides such as ``bolt.evaluator.parallelism=8``.

    Without `check` the parts are looked at but not the whole, for a caller who is about to change it.
    """
    return parse_topology(topology_text(path), settings, base=path.parent, source=str(path), check=check)


def parse_topology(
    text: str,
    settings: Sequence[str] = (),
    *,
    base: Path | None = None,
    source: str = "<topology>",
    check: bool = True,
) -> Topology:
    """Make a topology from TOML text, and check it."""
    return _topology(layers_of(text, source, base), settings, base, check)


def extended_topology(
    path: Path,
    tables: Mapping[str, Any],
    *,
    without: Sequence[str] = (),
    settings: Sequence[str] = (),
    check: bool = True,
) -> Topology:
    """Return the topology of a file with a program's tables over it, as a file beside it that extends it would have it."""
    above = Layer("<program>", "", to_plain(tables), Path(), tuple(tuple(key.split(".")) for key in without))
    return _topology((above, *layers_of(topology_text(path), str(path), path.parent)), settings, path.parent, check)


def _topology(layers: Sequence[Layer], settings: Sequence[str], base: Path | None, check: bool) -> Topology:
    tables = merged(layers, base)
    try:
        apply_settings(tables, settings)
        topology = _from_tables(tables, base)
        if check:
            validate(topology)
    except InvalidTopologyError as error:
        raise DeclarationError(_all_located(error.problems, Places(layers, settings), layers[0].source)) from None
    except DeclarationError as error:
        raise DeclarationError(_located(error, Places(layers, settings))) from None
    except OSError as error:  # a path that the file system cannot even look at
        raise DeclarationError(f"{layers[0].source}: {error.strerror or error}: {brief(error.filename)}") from None
    return topology


def _all_located(problems: Sequence[DeclarationError], places: Places, source: str) -> str:
    shown = [_located(problem, places) for problem in problems[:MAX_PROBLEMS]]
    left = len(problems) - len(shown)
    return "\n".join([*shown, f"{source}: and {left:,} more problems"] if left else shown)


def _located(error: DeclarationError, places: Places) -> str:
    text = str(error)
    text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}..."
    return f"{places.of(error.path)}: {text}"


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add file and line to what is found wrong with a key after its file was read: with other sources, a plan, a checkpoint."""
    try:
        yield
    except DeclarationError as error:
        problems = error.problems if isinstance(error, InvalidTopologyError) else (error,)
        if not any(problem.path for problem in problems):
            raise
        places = Places(layers_of(topology_text(path), str(path), path.parent))
        raise DeclarationError(_all_located(problems, places, str(path))) from None


def with_settings(topology: Topology, settings: Sequence[str]) -> Topology:
    """Return a topology with overrides such as ``bolt.evaluator.parallelism=8``, as a TOML file of it would have them."""
    tables = tomllib.loads(dump_topology(topology))
    apply_settings(tables, settings)
    changed = _from_tables(tables, None)
    classes = {component.name: component.classes for component in topology.components}
    components = tuple(dataclasses.replace(c, classes=classes.get(c.name, {})) for c in changed.components)
    return dataclasses.replace(changed, components=components, base=topology.base)


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Return the line on which a key stands, or else the table it would stand in; None for neither."""
    return KeyLines(text).of(path)


def apply_settings(tables: dict[str, Any], settings: Sequence[str]) -> None:
    """Override keys: each setting is ``a.b.c=value``, the value as TOML has it; what is not TOML is a string."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        path = tuple(part.strip() for part in key.split("."))
        shown = brief(setting)
        if not equals or not all(path):
            raise DeclarationError(f"--set {shown}: expected key=value, such as bolt.evaluator.parallelism=8")
        table = tables
        for i, part in enumerate(path[:-1]):
            if path[0] in ("spout", "bolt") and i == 1 and part not in table:
                hint = did_you_mean(part, table)
                raise DeclarationError(
                    f"--set {shown}: there is no {path[0]} '{part}'{hint}; there are: {', '.join(table) or 'none'}"
                )
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise DeclarationError(f"--set {shown}: '{'.'.join(path[: i + 1])}' is a value, not a table")
        table[path[-1]] = _setting(value, shown)
        if path[:-1] == (
            "topology",
            "window",
        ):  # of the two ways to say how long it is, the one that is set takes the place
            given = {other.partition("=")[0].strip() for other in settings}
            for other in [key for key in table if key != path[-1] and f"topology.window.{key}" not in given]:
                del table[other]


def _setting(text: str, shown: str) -> Any:
    """Return the one TOML value that a text is, or else the text."""
    try:
        found = tomllib.loads(f"v = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise DeclarationError(f"--set {shown}: the value cannot be read: {error}") from None
    return found["v"] if len(found) == 1 else text


def _from_tables(tables: Mapping[str, Any], base: Path | None) -> Topology:
    for key in tables:
        if key not in TABLES:
            if key in (EXTENDS, WITHOUT):
                raise DeclarationError(f"--set {key}: a file says what it extends, in its first lines; --set cannot")
            expected = ", ".join(TABLES)
            raise DeclarationError(f"unknown table '{key}'{did_you_mean(key, TABLES)}; expected: {expected}", (key,))
    components: list[Component] = []
    for kind in ("spout", "bolt"):
        for name, keys in _table(tables.get(kind, {}), (kind,)).items():
            if kind == "bolt" and name in tables.get("spout", {}):
                raise DeclarationError(f"'{name}' is a spout and a bolt; names are unique", (kind, name))
            if len(components) == MAX_COMPONENTS:
                raise DeclarationError(f"more than {MAX_COMPONENTS:,} spouts and bolts are too many", (kind, name))
            components.append(_component(kind, name, _table(keys, (kind, name)), tables[kind]))
    for key in (EXTENDS, WITHOUT):
        if key in _table(tables.get("topology", {}), ("topology",)):
            raise DeclarationError(f"'{key}' stands above the first table of a file, not in one", ("topology", key))
    settings = from_plain(Settings, _table(tables.get("topology", {}), ("topology",)), ("topology",))
    if settings.vocabulary is not None and base is not None:
        settings = dataclasses.replace(settings, vocabulary=base / settings.vocabulary)
    injected = tables.get("inject", [])
    if not isinstance(injected, list):
        raise DeclarationError(f"found {brief(injected)}, expected tables [[inject]]", ("inject",))
    injections, faults = disturbances(_table(one, ("inject",)) for one in injected)
    return Topology(settings, tuple(components), injections, faults, base)


def _table(value: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DeclarationError(f"found {brief(value)}, expected a table", path)
    return value


def _component(kind: Any, name: str, keys: Mapping[str, Any], beside: Mapping[str, Any]) -> Component:
    path = (kind, name)
    operator = keys.get("operator")
    if not isinstance(operator, str):
        near = did_you_mean(name, [other for other in beside if other != name])
        raise DeclarationError(f"{kind} '{name}'{near} needs an 'operator', the name of what it does", path)
    inputs = keys.get("inputs", [])
    if not isinstance(inputs, list):
        raise DeclarationError(f"found {brief(inputs)}, expected a list of tables", (*path, "inputs"))
    streams = keys.get("streams")
    return Component(
        name=name,
        kind=kind,
        operator=operator,
        parallelism=keys.get("parallelism", 1),
        inputs=tuple(from_plain(Input, _table(i, (*path, "inputs")), (*path, "inputs")) for i in inputs),
        tick=from_plain(Tick, _table(keys["tick"], (*path, "tick")), (*path, "tick")) if "tick" in keys else None,
        streams=_streams(streams, (*path, "streams")) if streams is not None else None,
        options={key: value for key, value in keys.items() if key not in COMPONENT_KEYS},
    )


def _streams(value: Any, path: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    for fields in _table(value, path).values():
        if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
            raise DeclarationError(f"found {brief(fields)}, expected a list of field names", path)
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
    if topology.injections or topology.faults:
        tables["inject"] = [to_plain(one) for one in (*topology.injections, *topology.faults)]
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
