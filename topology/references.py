"""From the name of an operator or grouping in a declaration to its class."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    module_name, colon, attribute = target.rpartition(":")
    if not colon:
        known = ", ".join(sorted(OPERATORS))
        raise DeclarationError(
            f"unknown operator '{reference}'{did_you_mean(reference, OPERATORS)}; "
            f"expected one of: {known}; or your own class as 'module:Class' or 'file.py:Class'",
            path,
        )
    try:
        module = _load_file(base, module_name) if module_name.endswith(".py") else importlib.import_module(module_name)
        found = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of the user's may raise anything while it is loaded
        raise DeclarationError(f"cannot load '{reference}': {type(error).__name__}: {error}", path) from error
    if not isinstance(found, type):
        raise DeclarationError(f"'{reference}' is a {type(found).__name__}, expected a class", path)
    return found


def _load_file(base: Path | None, name: str) -> Any:
    file = ((base or Path()) / name).resolve()
    module_name = f"_waterspout_{file.stem}_{abs(hash(file))}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None or not file.exists():
        raise FileNotFoundError(f"no such file: {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module
