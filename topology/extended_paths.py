"""Paths in a topology file that stands in another folder than the file that extends it.

They start from the folder of the file that has them. All other code knows one folder only, that of the first file, so they are
moved there before the files are merged.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operators.references import Reference, reference_in
from streams.errors import DeclarationError
from topology.conversion import option_fields
from topology.references import resolve

__all__ = ["with_moved_options", "with_moved_references"]

Tables = dict[str, Any]


def with_moved_references(tables: Tables, folder: Path) -> Tables:
    """Return tables whose plan, vocabulary, checkpoints and classes in files start from the first file's folder."""
    found = dict(tables)
    if isinstance(settings := found.get("topology"), dict):
        found["topology"] = _moved_settings(settings, folder)
    for kind, name, keys in _components(tables):
        moved = dict(keys)
        if isinstance(operator := keys.get("operator"), str):
            moved["operator"] = reference_in(operator, folder)
        if isinstance(inputs := keys.get("inputs"), list):
            moved["inputs"] = [_moved_input(one, folder) for one in inputs]
        found[kind] = {**found[kind], name: moved}
    return found


def with_moved_options(tables: Tables, whole: Tables, folder: Path, base: Path | None) -> Tables:
    """Return tables whose options that are paths start from the first file's folder; `whole` knows the operators."""
    found = dict(tables)
    operators = {(kind, name): keys.get("operator") for kind, name, keys in _components(whole)}
    for kind, name, keys in _components(tables):
        try:
            operator = resolve(str(operators.get((kind, name))), (), base, {})
        except DeclarationError:
            continue  # what is wrong with an operator is said when the whole is checked
        hints = {key: typing.get_type_hints(operator)[key] for key in option_fields(operator)}
        moved = {key: _moved(hints[key], value, folder) if key in hints else value for key, value in keys.items()}
        found[kind] = {**found[kind], name: moved}
    return found


def _components(tables: Mapping[str, Any]) -> list[tuple[str, str, Tables]]:
    """Return the tables of all spouts and bolts; what is no table is refused later."""
    return [
        (kind, name, keys)
        for kind in ("spout", "bolt")
        if isinstance(tables.get(kind), dict)
        for name, keys in tables[kind].items()
        if isinstance(keys, dict)
    ]


def _moved_settings(settings: Tables, folder: Path) -> Tables:
    found = dict(settings)
    if isinstance(vocabulary := found.get("vocabulary"), str):
        found["vocabulary"] = str(folder / vocabulary)
    if isinstance(plan := found.get("plan"), str) and plan != "auto":
        found["plan"] = str(folder / plan)
    checkpoint = found.get("checkpoint")
    directory = checkpoint.get("directory") if isinstance(checkpoint, dict) else None
    if isinstance(checkpoint, dict) and isinstance(directory, str) and directory and "://" not in directory:
        found["checkpoint"] = {**checkpoint, "directory": str(folder / directory)}
    return found


def _moved_input(one: Any, folder: Path) -> Any:
    if isinstance(one, dict) and isinstance(using := one.get("using"), str):
        return {**one, "using": reference_in(using, folder)}
    return one


def _moved(hint: Any, value: Any, folder: Path) -> Any:
    """Return an option with the paths inside it moved; which they are, `topology.conversion` decides in the same way."""
    args = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next((moved for arg in args if (moved := _moved(arg, value, folder)) != value), value)
    if hint is Path:
        return str(folder / value) if isinstance(value, str) and value else value
    if hint is Reference:
        return reference_in(value, folder) if isinstance(value, str) else value
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return [_moved(args[0], item, folder) for item in value]
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        inner = typing.get_type_hints(hint)
        return {key: _moved(inner[key], item, folder) if key in inner else item for key, item in value.items()}
    return value
