"""What queries to make, and the papers' own choices."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from streams.errors import DeclarationError, did_you_mean

__all__ = ["HOUR_MS", "KINDS", "MAX_QUERIES", "PRESETS", "WorkloadSpec", "preset"]

MAX_QUERIES = 100_000_000
HOUR_MS = 3_600_000

Kind = Literal["range", "knn", "topk", "terms", "sstd"]
KINDS: tuple[Kind, ...] = ("range", "knn", "topk", "terms", "sstd")


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What queries to make. Pairs are the least and the most of a value drawn uniformly for each query.

    Attributes:
        type: a query type, or ``sstd`` for its mix of six.
        count: how many queries.
        seed: of everything that is random.
        keywords: how many keywords; fewer where the object has fewer.
        side: the side of a region as a share of the space's side (Tornado, Table 1).
        area: its area as a share of the space's area, instead of `side` (SSTD, Section 7.1).
        k: results of knn, topk and terms.
        alpha: the weight of distance in topk.
        match: ``all`` or ``any``, for range and knn.
        condensed: shrinks all places towards the centre of the space by this factor (Tornado, Section 5).
        selective: the percentile of frequency, from 0 to 1, from which keywords are drawn instead of from the object;
            0.9 leaves out the most frequent tenth of the words (Tornado, Section 5).
        zipf: draws keywords by rank from a Zipf distribution of this exponent instead (Skype, Section 8.1.3).
        continuous: false makes range, knn and terms queries snapshots.
        duration_ms: how long a continuous query lives, or how far back a snapshot looks; None: for ever, and all so far.
        slide_ms: how often a continuous terms query reports.
        spread: arrive evenly over the time span of the data; otherwise all are there at its start.
    """

    type: Kind = "range"
    count: int = 10_000
    seed: int = 1
    keywords: tuple[int, int] = (3, 3)
    side: float | None = None
    area: float | None = None
    k: tuple[int, int] = (10, 10)
    alpha: tuple[float, float] = (0.0, 1.0)
    match: Literal["all", "any"] = "all"
    condensed: float | None = None
    selective: float | None = None
    zipf: float | None = None
    continuous: bool = True
    duration_ms: tuple[int, int] | None = None
    slide_ms: int = HOUR_MS
    spread: bool = False

    def __post_init__(self) -> None:
        for name, held, expected in _checks(self):
            if not held:
                raise DeclarationError(f"a workload's {name} is {getattr(self, name)!r}; expected {expected}")
        if self.selective is not None and self.zipf is not None:
            raise DeclarationError("a workload is either selective or zipf, not both")

    def region_share(self) -> float:
        """Return the side of a region as a share of the space's side; half a percent where nothing is said."""
        if self.area is not None:
            return math.sqrt(self.area)
        return 0.005 if self.side is None else self.side


def _checks(s: WorkloadSpec) -> list[tuple[str, bool, str]]:
    def pair(value: tuple[float, float], low: float, high: float) -> bool:
        return low <= value[0] <= value[1] <= high

    def share(value: float | None) -> bool:
        return value is None or 0.0 < value <= 1.0

    return [
        ("type", s.type in KINDS, f"one of {', '.join(KINDS)}{did_you_mean(str(s.type), KINDS)}"),
        ("count", 1 <= s.count <= MAX_QUERIES, f"1 to {MAX_QUERIES}"),
        ("keywords", pair(s.keywords, 1, 1000), "a pair of numbers from 1 on, the smaller one first"),
        ("side", share(s.side), "a share of the space, above 0 and at most 1"),
        ("area", share(s.area) and (s.area is None or s.side is None), "a share of the space, and no side with it"),
        ("k", pair(s.k, 1, 1_000_000), "a pair of numbers from 1 on, the smaller one first"),
        ("alpha", pair(s.alpha, 0.0, 1.0), "a pair of numbers from 0 to 1, the smaller one first"),
        ("match", s.match in ("all", "any"), "all or any"),
        ("condensed", share(s.condensed), "a factor above 0 and at most 1"),
        ("selective", s.selective is None or 0.0 <= s.selective <= 1.0, "a percentile from 0 to 1"),
        ("zipf", s.zipf is None or s.zipf > 0.0, "a positive exponent"),
        ("continuous", s.continuous or s.type != "topk", "true for topk: it has no snapshot form"),
        ("duration_ms", s.duration_ms is None or pair(s.duration_ms, 1, 2**53), "a pair of positive durations"),
        ("slide_ms", s.slide_ms > 0, "a positive duration"),
    ]


#: The papers' own workloads, with their default parameters.
PRESETS: dict[str, WorkloadSpec] = {
    "tornado": WorkloadSpec("range", keywords=(3, 3), side=0.005),
    "tornado-condensed": WorkloadSpec("range", keywords=(3, 3), side=0.005, condensed=0.5),
    "tornado-selective": WorkloadSpec("range", keywords=(3, 3), side=0.005, selective=0.9),
    "dkm-sks": WorkloadSpec("knn", keywords=(1, 5), k=(1, 10), match="any"),
    "skype": WorkloadSpec("topk", keywords=(1, 5), k=(20, 20)),
    "skype-zipf": WorkloadSpec("topk", keywords=(1, 5), k=(20, 20), zipf=1.0),
    "dynamic": WorkloadSpec("topk", keywords=(1, 5), k=(100, 100)),
    "sstd": WorkloadSpec(
        "sstd", keywords=(1, 1), area=0.0001, duration_ms=(72 * HOUR_MS, 72 * HOUR_MS), slide_ms=HOUR_MS, spread=True
    ),
}


def preset(name: str, **changes: Any) -> WorkloadSpec:
    """Return a paper's workload with some parameters changed."""
    if name not in PRESETS:
        raise DeclarationError(
            f"no workload is called '{name}'{did_you_mean(name, PRESETS)}; expected one of {', '.join(PRESETS)}"
        )
    known = [f.name for f in fields(WorkloadSpec)]
    for key in changes:
        if key not in known:
            raise DeclarationError(f"a workload has no '{key}'{did_you_mean(key, known)}; it has {', '.join(known)}")
    if changes.get("area") is not None and "side" not in changes:
        changes["side"] = None
    if changes.get("side") is not None and "area" not in changes:
        changes["area"] = None
    return replace(PRESETS[name], **changes)
