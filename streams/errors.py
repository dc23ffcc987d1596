"""What can go wrong, one class for each remedy.

Every error here is meant for a person: the text says what was found, where, what was expected and what to do.
All of them pickle (their arguments are their fields), so they cross process borders unchanged.
"""

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "CodecError",
    "DeclarationError",
    "InputError",
    "RunError",
    "TaskFailedError",
    "WaterspoutError",
    "brief",
    "did_you_mean",
    "listed",
]

#: Longer words are no typos: they get no hint, and messages do not repeat them whole.
LONGEST_WORD = 100

#: How many names a message lists.
_MOST_LISTED = 20


class WaterspoutError(Exception):
    """The root of all errors that Waterspout raises on purpose."""


class InputError(WaterspoutError):
    """A file cannot be used at all: mend or replace the file, or name another one."""


class DeclarationError(WaterspoutError):
    """A topology, an option or a command line says something impossible: mend the declaration.

    Attributes:
        text: what was found and what was expected.
        path: the key in the declaration, such as ``("bolt", "evaluator", "parallelism")``; empty where there is none.
    """

    def __init__(self, text: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(text, path)
        self.text = text
        self.path = path

    def __str__(self) -> str:
        return f"{'.'.join(map(_cut, self.path))}: {self.text}" if self.path else self.text


class CodecError(WaterspoutError):
    """Bytes that are not a message of this version: the sender is broken, or is not one of ours."""


class RunError(WaterspoutError):
    """A run ended before its input did, for a reason outside the operators (a lost worker, a full disk)."""


class TaskFailedError(RunError):
    """An operator raised: mend the operator.

    Attributes:
        task: the task's name, such as ``evaluator[2]``.
        epoch: the epoch it was working on.
        details: the operator's own traceback, as text (it may come from another machine).
    """

    def __init__(self, task: str, epoch: int, details: str) -> None:
        super().__init__(task, epoch, details)
        self.task = task
        self.epoch = epoch
        self.details = details

    def __str__(self) -> str:
        return f"task {self.task} failed in epoch {self.epoch}:\n{self.details.rstrip()}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the known word nearest to a mistyped one, or nothing."""
    if len(word) > LONGEST_WORD:
        return ""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


def brief(value: object) -> str:
    """Return a value as Python writes it, cut short, for a message; also one that Python refuses to write."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or lists in lists without end
        return f"a value of type {type(value).__name__} that is too large to be shown"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_WORD else f"{text[:LONGEST_WORD]}..."


def listed(names: Sequence[str]) -> str:
    """Return names for a message: the first few of many, none at full length that has no end."""
    return ", ".join(map(_cut, names[:_MOST_LISTED])) + (
        f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    )
