"""Summaries as files: read, and refused where they are none, or of another version."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streams.errors import InputError
from topology.summary import SUMMARY_FORMAT

__all__ = ["Summary", "checked_summary", "read_summary"]

Summary = Mapping[str, Any]

_NEEDED = ("objects", "queries", "results", "objects_per_s", "latency_ms", "evaluators", "timeline")


def read_summary(path: Path) -> Summary:
    """Return a summary that ``run --summary`` has written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise InputError(
            f"{path} cannot be read as a summary: {reason}; make one with: waterspout run ... --summary FILE"
        ) from None
    return checked_summary(found, str(path))


def checked_summary(found: Any, name: str) -> Summary:
    """Return a summary; raise where it is none, or was written by another version."""
    if not isinstance(found, Mapping) or "objects" not in found:
        raise InputError(f"{name} is no summary: it has no 'objects'; make one with: waterspout run ... --summary FILE")
    if found.get("format") != SUMMARY_FORMAT:
        said = f"format {found['format']}" if "format" in found else "a format without a number"
        raise InputError(
            f"{name} was written by another version of waterspout ({said}, this one reads {SUMMARY_FORMAT}); run again with "
            "--summary"
        )
    if missing := [key for key in _NEEDED if key not in found]:
        raise InputError(f"{name} is no whole summary: it has no '{missing[0]}'; run again with --summary")
    return found
