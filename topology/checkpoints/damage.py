"""Damage done to a checkpoint on purpose, to see that the one before it is taken (`topology.faults`: ``corrupt``)."""

import random

from streams.errors import InputError
from topology.checkpoints.manifest import MANIFEST, MAX_FILE_BYTES, folder_name
from topology.checkpoints.saved_state import whole_manifests
from topology.checkpoints.store import Store

__all__ = ["damage_newest"]

_MOST_BYTES = 8


def damage_newest(store: Store, seed: int, damaged: set[int]) -> bool:
    """Flip some bytes of a file of the newest checkpoint, and add it to those that are `damaged`.

    Return false where it cannot be now: there must be a whole one before it to go back to, and it must be whole itself.
    """
    manifests = whole_manifests(store)
    serials = [manifest.serial for manifest in manifests]
    if len(serials) < 2 or serials[-1] in damaged or all(serial in damaged for serial in serials[:-1]):
        return False
    rng = random.Random(seed)
    manifest, folder = manifests[-1], folder_name(serials[-1])
    try:
        # Parts are not among them: the checkpoint before would be damaged as well.
        names = [MANIFEST, *(file.name for file in (manifest.driver, *manifest.tasks.values()))]
        name = rng.choice(names)
        data = bytearray(store.read(f"{folder}/{name}", MAX_FILE_BYTES))
    except InputError:  # torn already, or being removed
        return False
    # A manifest has spaces, of which nothing depends; not so its first byte.
    places = {0} if name == MANIFEST else {rng.randrange(len(data)) for _ in range(rng.randrange(1, _MOST_BYTES))}
    for place in sorted(places):
        data[place] ^= rng.randrange(1, 256)
    store.write(f"{folder}/{name}", bytes(data))
    damaged.add(serials[-1])
    return True
