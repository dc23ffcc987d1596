"""The command, killed without warning and resumed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from waterspout.command_line import main

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "conf" / "quickstart.toml"
COMMAND = [str(Path(sys.executable).parent / "waterspout")]
MAX_SECONDS = 240


def arguments(folder, *more):
    return [
        "run", str(QUICKSTART), "--results", str(folder / "results.jsonl"), "--rejects", str(folder / "rejects.jsonl"),
        "--summary", str(folder / "summary.json"), "--set", "topology.epoch.objects=100",
        "--set", f"topology.checkpoint.directory={folder / 'checkpoints'}", "--set", "topology.checkpoint.epochs=1", *more,
    ]  # fmt: skip


def epoch_of(manifest):
    return json.loads(manifest.read_text("utf-8"))["checkpoint"]["epoch"]


def newest_epoch(folder):
    """Return the epoch of the newest checkpoint that counts, however it changes meanwhile."""
    found = [-1]
    for manifest in sorted(folder.glob("checkpoints/*/manifest.json")):
        try:
            found.append(epoch_of(manifest))
        except FileNotFoundError:
            continue  # an old one was removed under our eyes
    return max(found)


def test_process_killed_by_the_system_goes_on_where_it_was(tmp_path):
    """SIGKILL in mid-run, with other settings of how it runs, then --resume: the lines of a run that was not killed."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    process = subprocess.Popen([*COMMAND, *arguments(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + MAX_SECONDS
    while newest_epoch(killed) < 20 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(MAX_SECONDS) == -signal.SIGKILL
    assert not (killed / "summary.json").exists()
    resumed = [
        *arguments(killed),
        "--resume",
        str(killed / "checkpoints"),
        "--set",
        "topology.max_pending=3",
        "--log-json",
    ]
    done = subprocess.run([*COMMAND, *resumed], capture_output=True, timeout=MAX_SECONDS, check=True)
    events = {log["event"]: log for log in map(json.loads, done.stderr.splitlines())}
    assert events["run_resumed"]["epoch"] > 20
    subprocess.run([*COMMAND, *arguments(whole)], capture_output=True, timeout=MAX_SECONDS, check=True)
    lines = [sorted((folder / "results.jsonl").read_bytes().splitlines()) for folder in (killed, whole)]
    assert lines[0] == lines[1]
    assert len(lines[0]) > 100_000
    told = [json.loads((folder / "summary.json").read_text()) for folder in (killed, whole)]
    for key in ("objects", "queries", "results", "rejected", "communication", "replication"):
        assert told[0][key] == told[1][key]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--resume", "nowhere"], "nowhere: there are no checkpoints here"),
        (["--set", "topology.checkpoint.epochs=0"], "topology.checkpoint: epochs = 0, expected at least 1"),
        (["--set", "topology.checkpoint.seconds=0.0"], "seconds = 0.0, expected more than 0"),
        (["--set", "topology.checkpoint.direktory=x"], "did you mean 'directory'"),
        (
            ["--set", f"topology.checkpoint.directory={__file__}"],
            "test_resume.py is a file; give a folder, which is made",
        ),
        (["--set", "topology.checkpoint.on_failure=go"], "expected one of 'stop', 'skip'"),
    ],
)
def test_resuming_what_cannot_be_is_told(tmp_path, monkeypatch, capsys, more, message):
    """Exit code 2 and one message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["waterspout", *arguments(tmp_path, *more)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
