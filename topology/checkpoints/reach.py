"""Whether all processes of a run reach the store of its checkpoints: found out by trying, as no name of a place says so.

A folder may be shared between machines or not, credentials may be there or not, ``memory://`` is another one in each process.
The driver writes a file, each process answers with one of its own if it can read that, and the driver looks for the answers.
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass

from streams.errors import InputError
from topology.checkpoints.store import Store, open_store

__all__ = ["Probe"]

_ASKED = "asked"
_MOST_BYTES = 100


@dataclass(frozen=True, slots=True)
class Probe:
    """A question to all processes, in a folder of a store that is no checkpoint.

    Attributes:
        place: the store, as `open_store` takes it.
        folder: in the store.
        word: what answers have in them.
    """

    place: str
    folder: str
    word: bytes

    @classmethod
    def ask(cls, store: Store) -> "Probe":
        """Write the question; where not even that can be done, nobody will answer."""
        word = secrets.token_hex(8)
        probe = cls(store.place, f"probe-{word}", word.encode())
        with suppress(InputError):
            store.write(f"{probe.folder}/{_ASKED}", probe.word)
        return probe

    def answer(self, process: int) -> None:
        """Answer, if the question can be read from here; whatever goes wrong is an answer too."""
        with suppress(Exception):  # no package for it, no permission, no such place: it cannot be reached
            store = open_store(self.place)
            if store.read(f"{self.folder}/{_ASKED}", _MOST_BYTES) == self.word:
                store.write(f"{self.folder}/{process}", self.word)

    def answered(self, store: Store, processes: int) -> bool:
        """Tell whether all processes have answered, and remove the traces."""
        found = False
        with suppress(InputError):
            found = all(
                store.read(f"{self.folder}/{process}", _MOST_BYTES) == self.word for process in range(processes)
            )
        with suppress(InputError):
            store.remove(self.folder)
        return found
