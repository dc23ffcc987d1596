"""What is measured, always next to a baseline in the same run.

A benchmark is a module with ``run(options) -> Report``; `BENCHMARKS` lists them for ``waterspout bench``.
"""

from benchmarks.report import Goal, Options, Report

__all__ = ["BENCHMARKS", "HAVE_WORKLOADS", "TAKE_DATA", "Goal", "Options", "Report"]

#: Name on the command line -> (module, one line for the list).
BENCHMARKS: dict[str, tuple[str, str]] = {
    "adaptivity": ("benchmarks.adaptivity", "Tornado with and without balancing under a hotspot: efficiency, bytes"),
    "checkpoints": ("benchmarks.checkpoints", "large states on Ray: bytes written, bytes through the driver, seconds"),
    "delivery": ("benchmarks.delivery", "results from objects to a sink that counts or writes them, results/s"),
    "dkm": (
        "benchmarks.dkm",
        "DkM-SKS and its baselines: update time and load balance by workers, subscriptions and k",
    ),
    "dkm-scale": (
        "benchmarks.dkm_scale",
        "DkM-SKS with ten million subscriptions on two cores: update time, seconds to load, memory",
    ),
    "dskype": (
        "benchmarks.dskype",
        "DSkype's distribution mechanisms: throughput, communication, replication, hotspots",
    ),
    "dynamic": (
        "benchmarks.dynamic",
        "the k best among objects that move and change: ours sustained, next to the paper's methods, updates/s, bytes",
    ),
    "fences": ("benchmarks.fences", "who enters and leaves 100,000 regions: KAG next to brute force, updates/s"),
    "ingest": ("benchmarks.ingest", "CSV, JSONL and Parquet files to columnar batches, objects/s"),
    "knn-index": (
        "benchmarks.knn_index",
        "whose k nearest does each object change: the radius pyramid next to the papers' indexes, objects/s",
    ),
    "object-index": (
        "benchmarks.object_index",
        "snapshot queries over kept objects: segments next to the paper's R-tree, microseconds, inserts/s, bytes",
    ),
    "pipeline": ("benchmarks.pipeline", "raw CSV to a prepared data set and a QT-tree, on Spark: seconds and memory"),
    "range-index": (
        "benchmarks.range_index",
        "which standing queries does each object match: KAG, GI2 and FAST, objects/s",
    ),
    "range-workloads": (
        "benchmarks.range_workloads",
        "KAG, GI2 and FAST on every sort of question that people ask, objects/s and ratios",
    ),
    "recovery": ("benchmarks.recovery", "a worker killed under a million queries on Ray; what checkpoints cost"),
    "routing": (
        "benchmarks.routing",
        "points and ranges to workers: a plan's A-Grid, plain grid, R-tree and a walk, ns each",
    ),
    "serve": (
        "benchmarks.serve",
        "a service on loopback next to a plain echo: objects published, alerts pushed, latency, clients that wait",
    ),
    "skype": (
        "benchmarks.skype",
        "the k best of a sliding window: dissemination, buffers and message indexes, ours and the paper's, messages/s",
    ),
    "skype-scale": (
        "benchmarks.skype_scale",
        "Skype with five million subscriptions and a window of a million on two cores: messages/s, memory",
    ),
    "sstd-balance": (
        "benchmarks.sstd_balance",
        "SSTD's PM, FM and FG after objects or queries are inserted into a region: queries moved, latency, efficiency",
    ),
    "sstd-continuous": (
        "benchmarks.sstd_continuous",
        "SSTD's standing range, knn and terms queries by global index, and by their number: objects/s on two cores",
    ),
    "sstd-snapshot": (
        "benchmarks.sstd_snapshot",
        "SSTD's snapshot queries by global index, region, keywords and k: latency, objects visited",
    ),
    "terms-index": (
        "benchmarks.terms_index",
        "frequent terms of regions over a window: candidates with a bound, SSTD's groups and brute force, objects/s",
    ),
    "tornado": ("benchmarks.tornado", "Tornado end to end next to its baselines, local and Ray: objects/s"),
    "transport": (
        "benchmarks.transport",
        "spout -> 2 routers -> 4 null evaluators -> sink, local, Ray and plain actor calls",
    ),
    "view": (
        "benchmarks.view",
        "the live view of a run at full speed, with 8 and with 1,000 partitions: share of a core, frames/s in a browser",
    ),
}

#: Those that read a file of the user's (``--data``) instead of data that they make.
TAKE_DATA = frozenset({"delivery", "ingest", "knn-index", "pipeline", "range-index", "range-workloads"})

#: Those that have a list of workloads besides (``--workloads``).
HAVE_WORKLOADS = frozenset({"dynamic", "knn-index", "object-index", "skype"})
