"""Plain values (from TOML, the command line or Python) to typed dataclasses, and back.

One converter serves the settings of a topology and the options of every operator: the fields of a dataclass say which keys
there are and of which type, so a key cannot exist without its check.
"""

import dataclasses
import os
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from operators.references import Reference, reference_in
from streams.errors import DeclarationError, brief, did_you_mean, listed
from streams.geometry import Rect

__all__ = ["from_plain", "option_fields", "to_plain"]

T = TypeVar("T")
KeyPath = tuple[str, ...]

#: Integers stay within this, so that the sum of two fits in 64 bits.
MAX_INTEGER = 1 << 62

#: The bytes of one name in a path.
LONGEST_NAME = 255


def option_fields(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass that can be given; none for a class that is no dataclass."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else {}


def from_plain(
    cls: type[T], values: Mapping[str, Any], path: KeyPath = (), base: Path | None = None, beside: Sequence[str] = ()
) -> T:
    """Make a dataclass from plain values; `base` is the folder that relative paths start from.

    `beside` are other keys that may stand in the same table: one of them may be what was meant.
    """
    known = option_fields(cls)
    hints = typing.get_type_hints(cls)
    for key in values:
        if key not in known:
            expected = f"expected one of: {', '.join(known)}" if known else "it takes no options"
            near = did_you_mean(key, [*known, *beside])
            raise DeclarationError(f"unknown key '{listed([key])}'{near}; {expected}", (*path, key))
    made: dict[str, Any] = {}
    for name, field in known.items():
        if name in values:
            made[name] = _convert(hints[name], values[name], (*path, name), base)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DeclarationError(f"the key '{name}' is missing", path)
    try:
        return cls(**made)
    except DeclarationError as error:
        raise DeclarationError(error.text, (*path, *error.path)) from None


def _convert(hint: Any, value: Any, path: KeyPath, base: Path | None) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _convert_union(args, value, path, base)
    if origin is Literal:
        if value not in args:
            hinted = did_you_mean(value, args) if isinstance(value, str) else ""
            raise _wrong(value, f"one of {', '.join(map(repr, args))}", path, hinted)
        return value
    if hint is Rect:
        return _rect(value, path)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(args[0], item, path, base) for item in value)
    if origin is tuple:
        raise _wrong(value, "a list", path)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast("type[Any]", hint)):
            return value
        if not isinstance(value, Mapping):
            raise _wrong(value, "a table", path)
        return from_plain(typing.cast("type[Any]", hint), value, path, base)
    if hint is Path:
        if not isinstance(value, str | Path) or not _is_path(str(value)):
            raise _wrong(value, "a path", path)
        return base / value if base is not None else Path(value)
    if hint is Reference:
        text = _convert(str, value, path, base)
        return reference_in(text, base) if base is not None else text
    if hint is Any:
        return value
    if origin is Mapping:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise _wrong(value, "a table", path)
        return dict(value)
    if hint in (int, float) and type(value) is int and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise _wrong(value, f"a number from -{MAX_INTEGER} to {MAX_INTEGER}", path)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise _wrong(value, {int: "an integer", float: "a number", str: "a string", bool: "true or false"}[hint], path)
    return value


def _convert_union(args: tuple[Any, ...], value: Any, path: KeyPath, base: Path | None) -> Any:
    if value is None and type(None) in args:
        return None
    errors = []
    for arg in args:
        if arg is not type(None):
            try:
                return _convert(arg, value, path, base)
            except DeclarationError as error:
                errors.append(error)
    raise errors[0]


def _is_path(text: str) -> bool:
    """Tell whether a file system can have this path; one that cannot would raise wherever it is looked at."""
    return bool(text) and "\0" not in text and all(len(os.fsencode(part)) <= LONGEST_NAME for part in Path(text).parts)


def _rect(value: Any, path: KeyPath) -> Rect:
    if isinstance(value, Rect):
        return value
    is_numbers = isinstance(value, list | tuple) and all(type(v) in (int, float) for v in value)
    if not is_numbers or len(value) != 4:
        raise _wrong(value, "[min x, min y, max x, max y]", path)
    try:
        return Rect(*map(float, value))
    except OverflowError:
        raise _wrong(value, "[min x, min y, max x, max y], finite numbers", path) from None
    except DeclarationError as error:
        raise DeclarationError(error.text, path) from None


def _wrong(value: Any, expected: str, path: KeyPath, hint: str = "") -> DeclarationError:
    return DeclarationError(f"found {brief(value)}, expected {expected}{hint}", path)


def to_plain(value: Any) -> Any:
    """Turn a dataclass back into tables, lists and scalars; keys that are None are left out, as TOML has no null."""
    if isinstance(value, Rect):
        return list(value.as_tuple())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {key: item for key, item in found.items() if item is not None}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
