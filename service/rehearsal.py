"""A rehearsal before the first record: a few made-up objects and queries of all kinds go the way that real ones will go.

Kernels are compiled when they are first called on a machine, which takes seconds each, and nobody should wait for that with a
question in hand. The service judges made-up requests with an intake of its own and writes a journal of them, and the engine
runs the topology over it, both in a folder that is deleted. A request that comes before the service is ready breaks the
rehearsal off: then only what it needs is compiled first. Only shipped operators take part, and of these only such as touch
nothing outside of the run: a bolt of the user's, or a sink that publishes, must not see records that nobody sent.
"""

import asyncio
import contextlib
import dataclasses
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from operators.registry import OPERATORS
from operators.spouts.journal import pack_entry
from service.intake import Accepted, Intake, Operation
from streams.event_log import EventLog
from streams.geometry import Rect
from streams.segment_log import LogWriter
from topology.declaration import CheckpointSettings, Component, Topology
from topology.live import live_topology
from topology.run import run

__all__ = ["discard", "prepare_rehearsal", "rehearse", "rehearsed", "write_rehearsal"]

log = EventLog()

#: So often the run may find nothing more to do before it is over: what comes back by feedback is behind it then.
IDLE_TURNS = 6

#: A checkpoint every so many epochs: states are made of kernels, too.
CHECKPOINT_EPOCHS = 9

#: Objects of a body; the time of the first one, and the time between two bodies.
OBJECTS, FIRST_MS, STEP_MS = 24, 1_000_000, 1_000

WORDS = ("storm", "hail", "wind", "snow", "flood", "rain")

#: Packages of operators that change nothing outside of the run, and the spout and the sink that a service has.
_HARMLESS = tuple(f"operators.{name}." for name in ("routing", "evaluation", "merging", "refilling", "balancing"))
_OWN = ("live", "results-log")


# --- what is made up ------------------------------------------------------------------------------------------------


def write_rehearsal(intake: Intake, folder: Path) -> None:
    """Write the journal of a rehearsal.

    Args:
        intake: judges requests as that of the service does, and is used for nothing else.
        folder: where the rehearsal takes place.
    """
    discard(folder)
    (folder / "journal").mkdir(parents=True)
    (folder / "results").mkdir()
    writer = LogWriter(folder / "journal")
    try:
        for accepted in _requests(intake):
            if accepted.entry is not None:
                writer.append(pack_entry(accepted.entry))
        if (closing := intake.closing()) is not None:
            writer.append(pack_entry(closing))
        writer.sync()
    finally:
        writer.close()


async def prepare_rehearsal(intake: Intake, folder: Path) -> None:
    """Write the journal of a rehearsal while the service answers; one that fails is none, and only logged.

    Kernels may be compiled in it, so it is in a thread that the end of the service does not wait for.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def work() -> None:
        try:
            write_rehearsal(intake, folder)
        except Exception as error:
            log.warning("nothing_to_rehearse", error=str(error))
            discard(folder)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish)

    threading.Thread(target=work, name="rehearsal", daemon=True).start()
    await done


def _requests(intake: Intake) -> Iterator[Accepted]:
    """Yield what comes of each request; those that a topology does not answer are rejects, which do no harm."""
    space, now = intake.rules.space, FIRST_MS
    for body in _bodies(space):
        now += STEP_MS
        yield intake.objects(body, now)
    for n, question in enumerate(_questions(space)):
        now += STEP_MS
        asked = Operation("register", f"asked-{n}", {"window": 60_000, **question, "continuous": False})
        yield intake.operations([asked], now, "rehearsal", at_once=True)
    standing = [Operation("register", f"standing-{n}", body) for n, body in enumerate(_standing(space))]
    yield intake.operations(standing, now + STEP_MS, "rehearsal")
    for body in _bodies(space):
        now += 2 * STEP_MS
        yield intake.objects(body, now)
    yield intake.operations([Operation("unregister", one.id) for one in standing], now + STEP_MS, "rehearsal")


def _lines(space: Rect, first: int, more: dict[str, Any], count: int = OBJECTS) -> bytes:
    wide, high = space.max_x - space.min_x, space.max_y - space.min_y
    places = [((first + 7 * n) % 97 / 97, (first + 31 * n) % 89 / 89) for n in range(count)]
    return b"".join(
        json.dumps({"id": f"o{n}", "x": space.min_x + x * wide, "y": space.min_y + y * high, **more}).encode() + b"\n"
        for n, (x, y) in enumerate(places)
    )


def _bodies(space: Rect) -> Iterator[bytes]:
    """Yield bodies of objects as people write them: with a text, with keywords, with a time, changed and deleted."""
    yield _lines(space, 1, {"text": " ".join(WORDS)})
    yield _lines(space, 2, {"keywords": list(WORDS[:3])})
    yield _lines(space, 3, {"keywords": list(WORDS[2:]), "ts": FIRST_MS + 10 * STEP_MS}, 4 * OBJECTS)
    yield _lines(space, 4, {"op": "delete"}, 2)
    yield json.dumps({"id": "one", "x": (space.min_x + space.max_x) / 2, "y": space.min_y}).encode() + b"\n"


def _regions(space: Rect) -> list[dict[str, Any]]:
    x, y = (space.min_x + space.max_x) / 2, (space.min_y + space.max_y) / 2
    return [
        {"rect": [space.min_x, space.min_y, x, y]},
        {"circle": [x, y, min(x - space.min_x, y - space.min_y) / 2]},
        {"rect": [space.min_x, space.min_y, space.max_x, space.max_y]},
    ]


def _questions(space: Rect) -> Iterator[dict[str, Any]]:
    """Yield questions of all kinds that are asked once as well as always, with the keywords that they may have."""
    at = [(space.min_x + space.max_x) / 2, (space.min_y + space.max_y) / 2]
    for words in ({}, {"keywords": list(WORDS[:2])}, {"keywords": list(WORDS[1:4]), "match": "any"}):
        for region in _regions(space):
            yield {"type": "range", "region": region, **words}
        yield {"type": "knn", "at": at, "k": 3, **words}
    for region in _regions(space):
        yield {"type": "terms", "region": region, "k": 3, "window": 60_000}


def _standing(space: Rect) -> Iterator[dict[str, Any]]:
    for question in _questions(space):
        yield {**question, "slide": STEP_MS} if question["type"] == "terms" else question
    at = [(space.min_x + space.max_x) / 2, (space.min_y + space.max_y) / 2]
    for alpha in (0.0, 0.5, 1.0):
        yield {"type": "topk", "at": at, "k": 3, "alpha": alpha, "keywords": list(WORDS[:3])}
    for region in _regions(space):
        yield {"type": "range", "region": region, "detect": ["enter", "exit"]}


# --- the run --------------------------------------------------------------------------------------------------------


def rehearse(live: Topology, declared: Topology, folder: Path, broken_off: Callable[[], bool]) -> None:
    """Run a topology over the journal of a rehearsal, and forget what comes of it; what goes wrong is only logged.

    Args:
        live: what the engine is going to run, with its plan.
        declared: the same as its file has it.
        folder: where the rehearsal takes place.
        broken_off: is asked after each epoch whether there is something better to do.
    """
    if not (folder / "journal").is_dir():
        return
    turns = 0

    def wait(_seconds: float) -> None:
        nonlocal turns
        turns += 1

    try:
        if (topology := rehearsed(live, declared, folder)) is not None:
            run(topology, runtime="local", should_stop=lambda: turns > IDLE_TURNS or broken_off(), wait=wait)
    except Exception as error:  # the run itself says what is wrong, where that is not about made-up records
        log.info("not_rehearsed", error=str(error))
    finally:
        discard(folder)


def rehearsed(live: Topology, declared: Topology, folder: Path) -> Topology | None:
    """Return what of a topology takes part in its rehearsal; None where too little is left."""
    places = ((folder / name).absolute() for name in ("journal", "results", "checkpoints"))
    made = live_topology(declared, *places)
    kept = {c.name: c for c in made.components if _is_harmless(c)}
    while True:
        read = {
            name: dataclasses.replace(c, inputs=tuple(item for item in c.inputs if item.component in kept))
            for name, c in kept.items()
        }
        left = {name: c for name, c in read.items() if c.kind == "spout" or c.inputs}
        if len(left) == len(kept):
            break
        kept = left
    if not any(c.operator == "results-log" for c in left.values()):
        return None
    short = dataclasses.replace(
        live.settings.epoch, objects=OBJECTS, queries=1, ms=None
    )  # so that it can be broken off
    saved = CheckpointSettings(str((folder / "checkpoints").absolute()), epochs=CHECKPOINT_EPOCHS)
    settings = dataclasses.replace(live.settings, runtime="local", max_pending=1, checkpoint=saved, epoch=short)
    return dataclasses.replace(made, settings=settings, components=tuple(left.values()), faults=(), injections=())


def _is_harmless(component: Component) -> bool:
    target = OPERATORS.get(component.operator, "")
    return component.operator in _OWN or target.startswith(_HARMLESS)


def discard(folder: Path) -> None:
    """Delete what is left of a rehearsal."""
    shutil.rmtree(folder, ignore_errors=True)
