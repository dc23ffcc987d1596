"""Many seeds of `fault_simulation` and `wild_simulation` on all cores (``make simulate SEEDS=1000``).

A failing one is told with its replay.
"""

import argparse
import concurrent.futures
import logging
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import structlog

REPLAY = "python tests/simulate.py --topology {name} --mode {mode} --first {seed} --seeds 1"


def attempt(case):
    """Simulate one seed; return nothing, or what went wrong."""
    from fault_simulation import simulate  # once a process: kernels are compiled, or loaded, there
    from wild_simulation import WILD_MODES, simulate_wild

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    name, seed, mode = case
    folder = Path(tempfile.mkdtemp(prefix="simulate-"))
    try:
        (simulate_wild if mode in WILD_MODES else simulate)(folder, name, seed, mode)
    except Exception:  # whatever it is, the other seeds go on
        return traceback.format_exc(limit=-6)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def say(text):
    """Tell whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parsed(arguments):
    """Read the command line; return it, and (name, mode) of what is to be simulated."""
    from fault_simulation import MODES, TOPOLOGIES
    from wild_simulation import WILD_MODES, WILD_TOPOLOGIES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="so many seeds of each topology and mode")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--topology", choices=list(TOPOLOGIES), action="append", help="only this one")
    parser.add_argument("--mode", choices=[*MODES, *WILD_MODES], action="append", help="only this one")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no seed after this time")
    given = parser.parse_args(arguments)
    names, modes = given.topology or list(TOPOLOGIES), given.mode or [*MODES, *WILD_MODES]
    pairs = [(name, mode) for name in names for mode in modes if mode in MODES or name in WILD_TOPOLOGIES]
    if not pairs:
        parser.error(f"only the shipped topologies are run in the modes {' and '.join(WILD_MODES)}")
    return given, pairs


def main(arguments=None):
    """Run all seeds; return how many failed."""
    given, pairs = parsed(arguments)
    deadline = time.monotonic() + given.minutes * 60
    seeds = range(given.first, given.first + given.seeds)
    cases = [(name, seed, mode) for seed in seeds for name, mode in pairs]
    done = failed = 0
    workers = min(len(cases), os.cpu_count() or 1)
    with concurrent.futures.ProcessPoolExecutor(max(workers, 1)) as pool:
        for start in range(0, len(cases), 64 * workers):
            if time.monotonic() > deadline:
                break
            some = cases[start : start + 64 * workers]
            for case, wrong in zip(some, pool.map(attempt, some, chunksize=4), strict=True):
                done += 1
                if wrong is not None:
                    failed += 1
                    name, seed, mode = case
                    say(f"{name}, seed {seed}, {mode}:\n{wrong}\n  {REPLAY.format(name=name, seed=seed, mode=mode)}\n")
            say(f"{done} runs, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
