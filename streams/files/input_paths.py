"""What a path of a source stands for: a file, the files of a folder or of a pattern, a prepared data set, or a pipe."""

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from streams.errors import InputError
from streams.files.file_blocks import Format, file_kind
from streams.files.prepared import is_prepared, object_paths

__all__ = ["end_mark", "files_of", "is_pipe", "path_problem"]

#: Names of open files, which are read as pipes are: once, and without an ending that says what they are.
_OPEN_FILES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_LETTERS = "*?["


def is_pipe(path: Path) -> bool:
    """Tell whether a path is read once, as it comes: ``-`` for standard input, a named pipe, ``/dev/stdin``."""
    if path.name == "-" and not path.exists():
        return True
    if str(path).startswith(_OPEN_FILES):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def path_problem(path: Path, formats: Sequence[Format], prepared: bool) -> str | None:
    """Say why there is nothing to read at a path; None where there is."""
    if path.is_file() or is_pipe(path):
        return None
    try:
        files_of([path], formats, prepared)
    except InputError as error:
        return str(error)
    return None


def files_of(paths: Sequence[Path], formats: Sequence[Format], prepared: bool) -> list[Path]:
    """Return files in the order in which they are read: those of a folder, or of a pattern, in the order of their names.

    Of a folder that is no prepared data set, files are read whose ending says that they can be.

    Raises:
        InputError: there is nothing at a path.
    """
    found: list[Path] = []
    for path in paths:
        if prepared and is_prepared(path):
            found += object_paths(path)
        elif path.is_dir():
            found += _in_folder(path, formats, prepared)
        elif any(letter in str(path) for letter in _LETTERS) and not path.exists():
            matched = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
            files = [one for one in matched if one.is_file()]
            if not files:
                raise InputError(f"{path}: no file matches; check the pattern")
            found += files
        elif path.exists() or is_pipe(path):
            found.append(path)
        else:
            raise InputError(f"{path}: no such file; expected {_expected(prepared)}")
    return found


def _expected(prepared: bool) -> str:
    return f"a file, a folder, a pattern such as 'part-*.csv'{', or a prepared data set' if prepared else ''}"


def _in_folder(folder: Path, formats: Sequence[Format], prepared: bool) -> list[Path]:
    found = [
        Path(entry.path)
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
        if entry.is_file() and not entry.name.startswith((".", "_")) and _is_of(entry.name, formats)
    ]
    if not found:
        neither = "is neither a prepared data set nor has" if prepared else "does not have"
        raise InputError(
            f"{folder} is a folder that {neither} files in {', '.join(formats)}; expected {_expected(prepared)}"
        )
    return found


def _is_of(name: str, formats: Sequence[Format]) -> bool:
    try:
        file_kind(name, formats)
    except InputError:
        return False
    return True


def end_mark(path: Path) -> str:
    """Return the file that says, by being there, that the copy of a pipe is whole."""
    return f"{path}.end"
