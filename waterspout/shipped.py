"""The topologies and sample data that come with Waterspout, and ``init``, which copies them to where one can change them."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from streams.errors import InputError

__all__ = ["FOLDERS", "init", "shipped_folder"]

#: What is copied; paths in the topologies are relative, so the two must keep their places.
FOLDERS = ("conf", "examples/data")


def shipped_folder() -> Path:
    """Return where the shipped files are: inside of the installed package, or in the checkout that is being run."""
    here = Path(__file__).parent
    return here if (here / FOLDERS[0]).is_dir() else here.parent


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to copy to; it is made if need be.")],
) -> None:
    """Copy the shipped topologies and sample data into a folder."""
    source = shipped_folder()
    files = sorted(p for name in FOLDERS for p in (source / name).iterdir() if p.is_file() and p.suffix != ".py")
    targets = {path: folder / path.relative_to(source) for path in files}
    if there := [target for target in targets.values() if target.exists()]:
        raise InputError(f"{there[0]} exists already; give a folder that has none of the shipped files")
    try:
        for path, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    except OSError as error:
        raise InputError(f"{folder}: files cannot be copied there: {error.strerror}; name another folder") from None
    typer.echo(
        f"{folder}: {len(targets)} files; next, try: waterspout run {folder / 'conf' / 'quickstart.toml'} --show 8"
    )
