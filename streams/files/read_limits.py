"""What readers of files take at most: a limit on everything that a file can make large."""

from dataclasses import dataclass

from streams.errors import DeclarationError

__all__ = ["DEFAULT_LIMITS", "ReadLimits"]

#: For each limit, what it may be: below the smallest nothing could be read, beyond the largest offsets do not fit.
_RANGES = {
    "line_bytes": (1, 1 << 29),
    "keywords": (1, 1 << 24),
    "id_bytes": (20, 4_096),
    "columns": (1, 1 << 24),
    "row_group_values": (1, 1 << 31),
    "live_queries": (1, 1 << 40),
    "words": (1, 1 << 28),
    "reordered": (1, 1 << 28),
}


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a reader takes at most. A record beyond a limit is rejected; a file beyond one cannot be used at all.

    Attributes:
        line_bytes: the bytes of one record of a text file; also of one text, and of the keywords, of a Parquet row.
        keywords: the keywords of one object or query.
        id_bytes: the bytes of one id, in UTF-8 or in digits.
        columns: the columns of a table.
        row_group_values: the values of one column in one row group of a Parquet file.
        live_queries: the queries that live at a time; further ones are rejected.
        words: how many words an encoder remembers the ids of before it starts afresh.
        reordered: how many objects are accepted at most while one waits for older ones (`lateness_ms`).
    """

    line_bytes: int = 16 << 20
    keywords: int = 65_536
    id_bytes: int = 4_096
    columns: int = 10_000
    row_group_values: int = 1 << 26
    live_queries: int = 50_000_000
    words: int = 2_000_000
    reordered: int = 1_000_000

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise DeclarationError(f"{name} = {getattr(self, name)}, expected {least:,} to {most:,}")


DEFAULT_LIMITS = ReadLimits()
