"""What a log of results has published behind a checkpoint, so that a run that goes back does not publish it again."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from operators.merging.lists import fingerprints
from streams.batches import CrossingBatch, HitBatch, RankedBatch
from streams.codec import unpack_plain
from streams.columns import Ints
from streams.errors import CodecError
from streams.segment_log import Frame

__all__ = ["Published", "ResultFrame", "pack_results", "unpack_results"]

#: What a frame's metadata is followed by: the query numbers of its lines, and where each line ends.
_NUMBERS, _ENDS = np.dtype("<i8"), np.dtype("<u4")


@dataclass(frozen=True, slots=True, eq=False)
class ResultFrame:
    """The results of one epoch, as the log has them.

    Attributes:
        seq: the place of the last object that has a match in it; -1: none has.
        lists: (query number, time, fingerprint) of each state of a standing query.
        instants: (query number, time) of each answer that is given once.
        crossings: (query number, time, identifier, what) of each event of a fence.
        number: the query number of each line.
        ends: where each line ends in `lines`, its line feed included.
        lines: as in a results file.
        position: where in the log it is.
    """

    seq: int = -1
    lists: tuple[tuple[int, int, int], ...] = ()
    instants: tuple[tuple[int, int], ...] = ()
    crossings: tuple[tuple[int, int, Any, int], ...] = ()
    number: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    ends: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    lines: bytes = b""
    position: int = -1

    def __len__(self) -> int:
        return len(self.number)

    def noting(self, batch: Any) -> "ResultFrame":
        """Return the frame with what it must say of a batch that is in it."""
        if isinstance(batch, HitBatch):
            return replace(self, seq=max(self.seq, int(batch.seq.max())))
        if isinstance(batch, RankedBatch):
            rows = list(_lines(batch))
            return replace(
                self,
                lists=(*self.lists, *((number, ts, printed) for number, ts, instant, printed in rows if not instant)),
                instants=(*self.instants, *((number, ts) for number, ts, instant, _ in rows if instant)),
            )
        if isinstance(batch, CrossingBatch):
            return replace(self, crossings=(*self.crossings, *_crossings(batch)))
        return self


def pack_results(frame: ResultFrame, lines: bytes, number: Ints) -> list[bytes]:
    """Return the results of an epoch as the bytes of a frame."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")) + 1
    if len(ends) != len(number):
        raise CodecError(f"{len(ends)} lines for {len(number)} results")
    meta = msgpack.packb([len(number), frame.seq, frame.lists, frame.instants, frame.crossings])
    return [
        len(meta).to_bytes(4, "little"), meta, number.astype(_NUMBERS).tobytes(), ends.astype(_ENDS).tobytes(), lines,
    ]  # fmt: skip


def unpack_results(frame: Frame) -> ResultFrame:
    """Return the results of a frame; raise `CodecError` for anything else."""
    try:
        view = memoryview(frame.data)
        at = 4 + int.from_bytes(view[:4], "little")
        count, seq, lists, instants, crossings = unpack_plain(view[4:at], use_list=False)
        number = np.frombuffer(view, _NUMBERS, count, at)
        at += count * _NUMBERS.itemsize
        ends = np.frombuffer(view, _ENDS, count, at)
        lines = bytes(view[at + count * _ENDS.itemsize :])
        if count and (int(ends[-1]) != len(lines) or (ends[1:] <= ends[:-1]).any()):
            raise CodecError("lines of results that do not fit their ends")
    except CodecError:
        raise
    except Exception as error:  # whatever a broken frame trips over: it is one and the same fault
        raise CodecError(f"no frame of results: {type(error).__name__}: {str(error)[:200]}") from error
    return ResultFrame(seq, lists, instants, crossings, number, ends, lines, frame.position)


class Published:
    """What is in the log behind the checkpoint that the run goes on from; it forgets what cannot come again.

    Where epochs are cut in other places, a state of a list may come again under a later time, with those that followed it: so a
    list that is as the last one that was published does not count as new, whatever its time.
    """

    def __init__(self) -> None:
        self._seq = -1
        self._lists: dict[int, tuple[int, int]] = {}
        self._instants: set[tuple[int, int]] = set()
        self._crossings: Counter[tuple[int, int, Any, int]] = Counter()

    def add(self, frame: ResultFrame) -> None:
        """Take what a frame has."""
        self._seq = max(self._seq, frame.seq)
        for number, ts, printed in frame.lists:
            if ts >= self._lists.get(number, (ts, 0))[0]:
                self._lists[number] = ts, printed
        self._instants.update(frame.instants)
        self._crossings.update(frame.crossings)

    def without(self, batch: Any) -> Any:
        """Return the rows of a batch that are not in the log."""
        if isinstance(batch, HitBatch):
            if self._seq < 0 or not len(batch) or int(batch.seq.min()) > self._seq:
                return batch
            return batch.take(np.flatnonzero(batch.seq > self._seq))
        if isinstance(batch, RankedBatch) and (self._lists or self._instants):
            fresh = [self._is_new(*line) for line in _lines(batch)]
            return batch if all(fresh) else batch.take(np.flatnonzero(fresh))
        if isinstance(batch, CrossingBatch) and self._crossings:
            fresh = [self._is_new_crossing(key) for key in _crossings(batch)]
            return batch if all(fresh) else batch.take(np.flatnonzero(fresh))
        return batch

    def _is_new(self, number: int, ts: int, instant: bool, printed: int) -> bool:
        if instant:
            if (number, ts) in self._instants:
                self._instants.remove((number, ts))
                return False
            return True
        if number not in self._lists:
            return True
        last, known = self._lists[number]
        if ts <= last or printed == known:
            return False
        del self._lists[number]
        return True

    def _is_new_crossing(self, key: tuple[int, int, Any, int]) -> bool:
        if self._crossings[key] == 0:
            del self._crossings[key]
            return True
        self._crossings[key] -= 1
        if self._crossings[key] == 0:
            del self._crossings[key]
        return False

    def snapshot(self) -> dict[str, Any]:
        """Return what is left of it as plain values."""
        return {
            "seq": self._seq,
            "lists": [[number, *last] for number, last in self._lists.items()],
            "instants": [list(item) for item in self._instants],
            "crossings": [[*key, count] for key, count in self._crossings.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._seq = state["seq"]
        self._lists = {number: (ts, printed) for number, ts, printed in state["lists"]}
        self._instants = {(number, ts) for number, ts in state["instants"]}
        self._crossings = Counter({tuple(key): count for *key, count in state["crossings"]})


def _lines(batch: RankedBatch) -> Iterator[tuple[int, int, bool, int]]:
    """Yield the query number, the time, whether it is given once, and the fingerprint of each list."""
    columns = (batch.number, batch.ts, batch.instant, fingerprints(batch, by_id=True))
    return zip(*(column.tolist() for column in columns), strict=True)


def _crossings(batch: CrossingBatch) -> list[tuple[int, int, Any, int]]:
    columns = (batch.number.tolist(), batch.ts.tolist(), batch.ids.to_list(), batch.detect.tolist())
    return list(zip(*columns, strict=True))
