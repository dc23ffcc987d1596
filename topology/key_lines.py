"""On which line of a TOML text a key stands, for messages."""

import re

__all__ = ["KeyLines"]

_KEY = re.compile(r"""[A-Za-z0-9_."'\s-]+""")

#: Keys of more parts than this are known by their first ones; no key of a topology is as deep.
_MOST_PARTS = 8

Path = tuple[str, ...]


class KeyLines:
    """The lines of all tables and keys of a text, found in one pass, whatever the text is."""

    def __init__(self, text: str) -> None:
        self._said: dict[Path, int] = {}
        self._inside: dict[Path, int] = {}
        table: Path = ()
        for number, line in enumerate(text.split("\n"), 1):
            if (name := _table_name(line)) is not None:
                found = table = _split(name)
            elif (name := _key_name(line)) is not None:
                found = (table + _split(name))[:_MOST_PARTS]
            else:
                continue
            self._said.setdefault(found, number)
            for depth in range(1, len(found) + 1):
                self._inside.setdefault(found[:depth], number)

    def of(self, path: Path) -> int | None:
        """Return the line on which a key stands, or else the table it would stand in; None for neither."""
        if (line := self.inside(path)) is not None:
            return line
        lines = (self.said(path[:depth]) for depth in range(len(path) - 1, 0, -1))
        return next((line for line in lines if line is not None), None)

    def inside(self, path: Path) -> int | None:
        """Return the line on which a key or a table stands, or the first key inside it."""
        return self._inside.get(path[:_MOST_PARTS])

    def said(self, path: Path) -> int | None:
        """Return the line on which a key or a table stands itself."""
        return self._said.get(path)


def _table_name(line: str) -> str | None:
    line = line.strip()
    if not line.startswith("["):
        return None
    name, end, rest = line.lstrip("[").partition("]")
    rest = rest.removeprefix("]").strip()
    return name.strip() if end and name.strip() and (not rest or rest.startswith("#")) else None


def _key_name(line: str) -> str | None:
    key, equals, _ = line.partition("=")
    return key if equals and _KEY.fullmatch(key) and key.strip() else None


def _split(name: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in name.split(".", _MOST_PARTS)[:_MOST_PARTS])
