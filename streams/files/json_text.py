"""Columns of values as JSON text, without a Python loop over the rows that need no escapes."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streams.columns import Ids

__all__ = ["json_ids", "json_strings", "plain_ids"]

#: What JSON does not allow inside of quotes as it is.
_ESCAPED = r'["\\\x00-\x1f]'


def json_strings(texts: Any) -> Any:
    """Return an Arrow column of strings as JSON strings, characters beyond ASCII as they are."""
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.match_substring_regex(texts, _ESCAPED)
    if not pc.any(special, min_count=0).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))


def json_ids(ids: Ids) -> Any:
    """Return identifiers as an Arrow column of JSON texts."""
    if ids.kind == "int":
        return pa.array(ids.values).cast(pa.string())
    return json_strings(ids.values) if ids.kind == "text" else ids.values


def plain_ids(ids: Ids) -> Any:
    """Return identifiers as an Arrow column of strings, integers as their digits."""
    if ids.kind == "json":
        return pa.array([str(name) for name in ids.to_list()], pa.string())
    return ids.values if ids.kind == "text" else pa.array(ids.values).cast(pa.string())
