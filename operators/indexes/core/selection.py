"""Indexes and rules by name: what a declaration says becomes an object, or a message that says what there is."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from streams.errors import DeclarationError, did_you_mean

__all__ = ["made"]


def made(name: str, known: Mapping[str, Callable[..., Any]], kind: str, given: tuple[Any, ...], options: Any) -> Any:
    """Make what a name stands for, or say what is wrong with the name or an option."""
    if name not in known:
        raise DeclarationError(f"{kind} '{name}'{did_you_mean(name, known)}, expected one of: {', '.join(known)}")
    names = list(inspect.signature(known[name]).parameters)[len(given) :]
    for option in options:
        if option not in names:
            raise DeclarationError(
                f"option '{option}' of {kind} '{name}'{did_you_mean(option, names)}, "
                f"expected {'one of: ' + ', '.join(names) if names else 'none'}"
            )
    return known[name](*given, **options)
