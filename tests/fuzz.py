"""Coverage-guided fuzzing (atheris) of everything that takes bytes from outside: ``make fuzz SECONDS=60``.

Beside the properties under `tests/property`, which know what input looks like, this one looks for the bytes that reach
new code. Each target may end in a value or in an error of ours. An input that does anything else, takes longer than some
seconds or more memory than it should, is kept in a file and told with the command that replays it.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CONF = Path(__file__).parent.parent / "conf"
#: Kernels run as plain Python: their branches count as coverage, and an index beyond the end of an array is an error.
INTERPRETED = {"NUMBA_DISABLE_JIT": "1"}
MOST_BYTES, MOST_SECONDS, MOST_MIB = 4096, 20, 3072

OBJECT_LINES = [
    {"id": 1, "ts": 0, "x": 0.5, "y": 0.25, "text": "Storm in the Port"},
    {"id": "o2", "ts": "1970-01-01T00:00:00.004Z", "lon": 0.1, "lat": 0.9, "keywords": ["Sushi"], "op": "delete"},
]
QUERY_LINES = [
    {"op": "register", "id": "a", "ts": 0, "type": "range", "region": {"rect": [0, 0, 1, 1]}, "keywords": ["x"], "ttl": 9},
    {"op": "register", "id": 2, "ts": 0, "type": "topk", "at": [0.5, 0.5], "k": 3, "alpha": 0.4, "keywords": ["x", "y"]},
    {"op": "register", "id": "c", "ts": 1, "type": "terms", "region": {"circle": [0.5, 0.5, 0.1]}, "k": 1, "window": 6,
     "slide": 5},
    {"op": "unregister", "id": "a", "ts": 3},
]  # fmt: skip
TABLE = 'id,ts,x,y,text,op\n1,0,0.5,0.25,"Storm, in ""the"" Port",\no2,3,1,0,,upsert\n'


def lines(records):
    """Return records as a JSONL file."""
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def targets():
    """Return name -> (what takes the bytes, a valid input); imports are made here, so that they can be instrumented."""
    import numpy as np

    from partitioners import FineGrid, GridPlan
    from partitioners.plans.plan import pack, unpack
    from streams.batches import ObjectBatch, TupleBatch
    from streams.codec import decode, encode
    from streams.columns import Ids
    from streams.files.object_files import read_objects
    from streams.files.open_queries import OpenQueries
    from streams.files.query_files import read_queries
    from streams.files.read_limits import ReadLimits
    from streams.geometry import Rect
    from streams.state import pack_state, unpack_state
    from streams.vocabulary import Encoder
    from topology.toml import parse_topology

    space = Rect(0, 0, 1, 1)
    limits = ReadLimits(line_bytes=2_000, keywords=6, id_bytes=64, columns=12)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def objects(ending):
        def read(data):
            path = folder / f"any.{ending}"
            path.write_bytes(data)
            list(read_objects(path, space=space, encoder=Encoder(), limits=limits, chunk_rows=7))

        return read

    def queries(data):
        path = folder / "any.jsonl"
        path.write_bytes(data)
        list(
            read_queries(path, space=space, encoder=Encoder(), open_queries=OpenQueries(), limits=limits, chunk_rows=7)
        )

    def topologies(data):
        parse_topology(data.decode(errors="replace"), base=CONF, source="any.toml")

    plan = GridPlan.of_boxes(FineGrid(space, 4, 4), np.array([[0, 0, 3, 3]]), np.zeros(1), 2)
    message = encode([("", ObjectBatch.empty()), ("t", TupleBatch(("a",), (Ids.of([1, "x"]),)))], [7, False])
    state = pack_state({"ids": Ids.of(["a", "b"]), "grid": np.zeros((2, 3)), "t": (1, (2,)), "s": {3, 4}, "n": 2**70})
    return {
        "messages": (decode, b"".join(message)),
        "states": (unpack_state, state),
        "plans": (unpack, pack(plan)),
        "objects-jsonl": (objects("jsonl"), lines(OBJECT_LINES)),
        "objects-csv": (objects("csv"), TABLE.encode()),
        "queries": (queries, lines(QUERY_LINES)),
        "topologies": (topologies, (CONF / "quickstart.toml").read_bytes()),
    }


def fuzz(name, options):
    """Fuzz one target in this process, until libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["streams", "partitioners", "topology"]):
        from streams.errors import WaterspoutError

        take, _ = targets()[name]

    def attempt(data):
        with contextlib.suppress(WaterspoutError):
            take(data)

    atheris.Setup([sys.argv[0], *options], attempt)
    atheris.Fuzz()


def main():
    """Fuzz each target in a process of its own; return how many had something to show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="*", help="only these; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="so long each")
    parser.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        fuzz(given.target[0], given.inside)
    known, failed = targets(), []
    for name in given.target or known:
        corpus = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
        (corpus / "valid").write_bytes(known[name][1])
        options = [
            f"-max_total_time={given.seconds}", f"-max_len={MOST_BYTES}", f"-timeout={MOST_SECONDS}",
            f"-rss_limit_mb={MOST_MIB}", f"-artifact_prefix={corpus}/found-", "-print_final_stats=1",
        ]  # fmt: skip
        command = [sys.executable, __file__, name, "--inside"]
        done = subprocess.run(
            [*command, *options, str(corpus)], capture_output=True, text=True, check=False, env=os.environ | INTERPRETED
        )
        sys.stdout.write(f"{name}: {'fine' if done.returncode == 0 else 'FAILED'}, {executions(done.stderr)} inputs\n")
        sys.stdout.flush()
        if done.returncode:
            failed.append(name)
            sys.stdout.write(f"{done.stdout[-2000:]}{done.stderr[-2000:]}\n")
            for found in corpus.glob("found-*"):
                replay = f"NUMBA_DISABLE_JIT=1 python {' '.join(command[1:])} {found}"
                sys.stdout.write(f"  {replay}\n")
    return len(failed)


def executions(log):
    """Return how many inputs libFuzzer says it has tried."""
    return next((line.split()[-1] for line in log.splitlines() if "number_of_executed_units" in line), "no")


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
