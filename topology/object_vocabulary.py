"""Which vocabulary the objects of a topology are numbered by.

Prepared objects have keywords as numbers, which mean something under one vocabulary only: that of the data set they belong to.
Read under none, or under another, they match nothing or the wrong thing, and nobody would notice.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streams.errors import DeclarationError, InputError
from streams.files.prepared import VOCABULARY, homes_of, load_manifest, same_words
from streams.vocabulary import UNSEEN_BASE

__all__ = ["vocabulary_beside", "vocabulary_problems"]

IDS = "keyword_ids"
_REMEDY = "prepare the data set again, or name another one"


def vocabulary_beside(paths: Sequence[Path]) -> Path | None:
    """Return the prepared data set that some of these objects belong to, or None."""
    return next((home for home in homes_of(paths) if home is not None), None)


def vocabulary_problems(named: Path | None, spout: str, paths: Sequence[Path]) -> Iterator[DeclarationError]:
    """Yield what does not belong together: `named` is the topology's vocabulary, `paths` are a spout's objects."""
    key, path_key = ("topology", "vocabulary"), ("spout", spout, "path")
    if named is not None and (wrong := _unusable(named)):
        yield DeclarationError(wrong, key)
        return
    used = named or vocabulary_beside(paths)
    for path, home in zip(paths, homes_of(paths), strict=True):
        if home is not None and used is not None and not same_words(home, used):
            yield DeclarationError(
                f"{path} has keywords by the numbers of {home / VOCABULARY}, but here they would be read by those of "
                f"{used / VOCABULARY}, which has other words; "
                + (f"set it to {home}, or leave it out" if named is not None else "prepare the files together"),
                key if named is not None else path_key,
            )
        elif home is None and (most := _largest_id(path)) is not None:
            if used is None:
                yield DeclarationError(
                    f"{path} has keywords by number ({IDS}), but no vocabulary says which words they are; set "
                    "topology.vocabulary to the prepared data set that it comes from, or read it there",
                    path_key,
                )
            elif (words := load_manifest(used).words) <= most < UNSEEN_BASE:  # rare words are hashes
                yield DeclarationError(
                    f"{path} has keywords of numbers up to {most}, but {used / VOCABULARY} has {words} words, so it "
                    "is not theirs; set topology.vocabulary to the prepared data set that the file comes from",
                    path_key,
                )


def _unusable(folder: Path) -> str | None:
    try:
        load_manifest(folder)
    except InputError as error:
        return str(error)
    return None if (folder / VOCABULARY).is_file() else f"{folder / VOCABULARY} is missing; {_REMEDY}"


def _largest_id(path: Path) -> int | None:
    """Return the largest keyword id that a Parquet file tells of, 0 where it does not tell; None for one without ids."""
    if not path.name.endswith(".parquet"):
        return None
    try:
        with pq.ParquetFile(path) as file:
            if IDS not in file.schema_arrow.names:
                return None
            metadata = file.metadata
            groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
            columns = (group.column(place) for group in groups for place in range(group.num_columns))
            known = [c.statistics.max for c in columns if c.path_in_schema.startswith(IDS) and _has_bounds(c)]
    except (OSError, ValueError, pa.ArrowException):
        return None  # the spout that reads it says what is wrong with it
    return max([0, *(most for most in known if isinstance(most, int))])


def _has_bounds(column: pq.ColumnChunkMetaData) -> bool:
    return column.statistics is not None and bool(column.statistics.has_min_max)
