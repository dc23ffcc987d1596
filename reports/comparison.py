"""Several topologies on the same input and injections, repeated with seeds: what each costs, and whether all say the same."""

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.summary_files import Summary
from streams.errors import InputError
from topology.amendments import source_of
from topology.declaration import Topology
from topology.hotspots import hotspots_of
from topology.run import run
from topology.validation import make_operator
from topology.verification import listening, verify_lines

__all__ = ["Answers", "Comparison", "Contender", "Spread", "answers_of_run", "compare", "with_seed"]

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over repeats: the median, the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Take the figure of each repeat."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Answers:
    """What a run answered, in a form that does not depend on how its stream was cut into epochs.

    Matches and counts of words are all there; of a standing list (the k nearest, the k best) the last line, because changes
    within an epoch may be written as one.

    Attributes:
        count: matches, lists and counts.
        digest: equal where all answers are.
    """

    count: int
    digest: str


@dataclass(frozen=True, slots=True)
class Contender:
    """A topology that was compared: its name, the summaries of its repeats, and what it answered with the first seed."""

    name: str
    summaries: tuple[Summary, ...]
    answers: Answers

    def spread(self, *keys: str) -> Spread:
        """Return a figure of the summaries over the repeats."""
        values = []
        for summary in self.summaries:
            found: Any = summary
            for key in keys:
                found = found[key]
            values.append(float(found))
        return Spread.of(values)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of it: contenders in the order given, where they read, and whether all ran in one process."""

    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    objects: tuple[str, ...]
    queries: tuple[str, ...]
    embedded: bool

    @property
    def equal(self) -> bool:
        """Whether all gave the same answers."""
        return len({one.answers for one in self.contenders}) == 1


def with_seed(topology: Topology, seed: int) -> Topology:
    """Return a topology with another seed, for its schedule and for what its injections touch."""
    settings = dataclasses.replace(topology.settings, seed=topology.settings.seed + seed)
    injections = tuple(dataclasses.replace(one, seed=one.seed + seed) for one in topology.injections)
    return dataclasses.replace(topology, settings=settings, injections=injections)


def compare(
    topologies: Mapping[str, Topology], repeats: int, say: Say = lambda _text: None, **options: Any
) -> Comparison:
    """Run topologies by turns, so that whatever else the machine does touches all alike.

    The first run of each is not measured: its answers are compared. `options` are those of `topology.run.run`.
    """
    _check_inputs(topologies)
    answers = {}
    for name, topology in topologies.items():
        say(f"{name}: answers, with seed {topology.settings.seed}")
        answers[name], summary = answers_of_run(topology, **options)
        _check_queries(name, summary)
    summaries: dict[str, list[Summary]] = {name: [] for name in topologies}
    for seed in range(repeats):
        for name, topology in topologies.items():
            say(f"{name}: run {seed + 1} of {repeats}")
            seeded = with_seed(topology, seed)
            summary = run(seeded, **options).summary
            hotspots = hotspots_of(seeded, summary["objects"])
            summaries[name].append({"topology": name, "hotspots": hotspots, **summary})
    first = next(iter(topologies.values()))
    return Comparison(
        tuple(Contender(name, tuple(summaries[name]), answers[name]) for name in topologies),
        tuple(range(repeats)),
        tuple(path.name for path in _files(first, "leads")),
        tuple(path.name for path in _files(first, "follows")),
        all(topology.settings.runtime == "local" for topology in topologies.values()),
    )


def answers_of_run(topology: Topology, **options: Any) -> tuple[Answers, Summary]:
    """Run a topology, and return what it answered and its summary."""
    outcome = run(listening(topology), **options)
    total, count = 0, 0
    lists: dict[str, bytes] = {}
    for line in verify_lines(outcome.collected):
        items = line.get("objects")
        if items and isinstance(items[0], list):
            lists[json.dumps(line["query"])] = json.dumps([line["query"], items]).encode()
            continue
        if items is not None:
            line["objects"] = sorted(map(str, items))
        total, count = total + _number(json.dumps(line, sort_keys=True).encode()), count + 1
    for said in lists.values():
        total, count = total + _number(said), count + 1
    return Answers(count, f"{total % (1 << 128):032x}"), outcome.summary


def _number(said: bytes) -> int:
    """Return a number for a line; the sum over all lines does not depend on their order."""
    return int.from_bytes(hashlib.blake2b(said, digest_size=16).digest(), "big")


def _files(topology: Topology, pace: str) -> list[Path]:
    found: list[Path] = make_operator(source_of(topology, pace), topology).files()
    return [Path(path) for path in found]


def _check_inputs(topologies: Mapping[str, Topology]) -> None:
    """Raise where topologies would read different files, or inject different things."""
    names = list(topologies)
    for pace, option in (("leads", "--objects"), ("follows", "--queries")):
        read = {name: [path.resolve() for path in _files(topology, pace)] for name, topology in topologies.items()}
        for name in names[1:]:
            if read[name] != read[names[0]]:
                mine, other = (", ".join(path.name for path in read[one]) for one in (names[0], name))
                raise InputError(
                    f"{names[0]} reads {mine}, but {name} reads {other}; give one file to all with {option}"
                )
    for name in names[1:]:
        if topologies[name].injections != topologies[names[0]].injections:
            raise InputError(
                f"{names[0]} and {name} declare different injections; take [[inject]] out of the files and give --inject to all"
            )


def _check_queries(name: str, summary: Summary) -> None:
    """Raise where a topology cannot answer queries of the input: its figures would be those of less work."""
    reasons = [one for one in summary["reject_reasons"] if "not answered here" in one["reason"]]
    if not summary["queries"] or (summary["rejected_queries"] and reasons):
        why = f" ({reasons[0]['count']:,} times: {reasons[0]['reason']})" if reasons else ""
        raise InputError(
            f"{name} could not use {summary['rejected_queries']:,} query operations of the input{why}; compare topologies that "
            "answer the same types of query, or give queries that all of them answer with --queries"
        )
