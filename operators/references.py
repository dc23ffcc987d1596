"""What a declaration names by module or by file: ``module:Name`` or ``file.py:Name``."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, NewType

from streams.errors import DeclarationError, did_you_mean

__all__ = ["Reference", "load_reference", "reference_in"]

#: An option that is a shipped name or a reference; the file of one starts from the topology's folder, as paths do.
Reference = NewType("Reference", str)


def reference_in(reference: str, folder: Path) -> str:
    """Return a reference whose file, where it names one, starts from a folder."""
    file, colon, name = reference.rpartition(":")
    return f"{folder / file}{colon}{name}" if file.endswith(".py") else reference


def load_reference(reference: str, path: tuple[str, ...], base: Path | None = None) -> Any:
    """Return what a reference names; raise `DeclarationError` for the key `path` if it cannot be loaded."""
    module_name, _, attribute = reference.rpartition(":")
    try:
        found = _load_file(base, module_name) if module_name.endswith(".py") else _load_module(base, module_name)
        for part in attribute.split("."):
            if not hasattr(found, part):
                near = did_you_mean(part, [name for name in vars(found) if not name.startswith("_")])
                raise DeclarationError(f"cannot load '{reference}': {module_name} has no '{part}'{near}", path)
            found = getattr(found, part)
    except DeclarationError:
        raise
    except Exception as error:  # a module of the user's may raise anything while it is loaded
        raise DeclarationError(f"cannot load '{reference}': {type(error).__name__}: {error}", path) from error
    return found


def _load_module(base: Path | None, name: str) -> Any:
    """Import a module: from Python's own path, else from beside the declaration, else from the current folder."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0]
        if error.name != top:
            raise  # the module is there, and what it imports is not
        folders = list(dict.fromkeys(folder.resolve() for folder in (base or Path(), Path())))
        for folder in folders:
            if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
                sys.path.append(str(folder))  # at the end: it must not hide anything
                importlib.invalidate_caches()
                return importlib.import_module(name)
        raise ModuleNotFoundError(
            f"no module '{name}' in Python's path nor in {' or '.join(map(str, folders))}", name=error.name
        ) from error


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
