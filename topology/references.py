"""From the name of an operator or grouping in a declaration to its class."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operators.references import load_reference
from operators.registry import OPERATORS
from streams.errors import DeclarationError, did_you_mean

__all__ = ["reference_of", "resolve"]


def reference_of(cls: type[Any]) -> str:
    """Return the reference under which a class can be declared: its shipped name, or ``module:Class``.

    A class of a script that is being run is named by the script's file, so that a written declaration can load it again.
    """
    path = f"{cls.__module__}:{cls.__qualname__}"
    for name, known in OPERATORS.items():
        if known == path:
            return name
    if cls.__module__ == "__main__" and (script := getattr(sys.modules["__main__"], "__file__", None)):
        return f"{script}:{cls.__qualname__}"
    return path


def resolve(reference: str, path: tuple[str, ...], base: Path | None, classes: Mapping[str, type[Any]]) -> type[Any]:
    """Return the class of a reference: given in Python, shipped, ``module:Class`` or ``file.py:Class``."""
    if reference in classes:
        return classes[reference]
    target = OPERATORS.get(reference, reference)
    if ":" not in target:
        known = ", ".join(sorted(OPERATORS))
        raise DeclarationError(
            f"unknown operator '{reference}'{did_you_mean(reference, OPERATORS)}; "
            f"expected one of: {known}; or your own class as 'module:Class' or 'file.py:Class'",
            path,
        )
    found = load_reference(target, path, base)
    if not isinstance(found, type):
        raise DeclarationError(f"'{reference}' is a {type(found).__name__}, expected a class", path)
    return found
