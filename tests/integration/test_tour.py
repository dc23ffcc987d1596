"""The first two minutes: ``make run`` is the tour."""

import os
import re
import subprocess
import sys
from pathlib import Path

from waterspout.tour import PICTURE, STOPS

ROOT = Path(__file__).parents[2]


def test_tour_shows_each_kind_of_answer_and_draws_a_picture(tmp_path):
    """Two results of each kind in words, figures, a map in a folder that is made, and what to do next."""
    pictures = tmp_path / "of" / "mine"
    done = subprocess.run(
        [sys.executable, "-m", "waterspout", "tour", "--out", "of/mine"], capture_output=True, text=True, check=False,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^\d\. ", done.stdout, flags=re.M)[1:]
    assert [part.split(":")[0] for part in parts] == [stop.title for stop in STOPS]
    for part, words in zip(
        parts,
        (" in the rectangle | within ", " nearest with ", " best for ", " most frequent words ", " best for "),
        strict=True,
    ):
        assert len(re.findall(words.replace(" | ", "|"), part)) >= 2
        assert re.search(r"objects/s, p95 latency \d+ ms", part)
    assert "Next, try" in parts[-1]
    assert (pictures / PICTURE).read_bytes().startswith(b"\x89PNG")
