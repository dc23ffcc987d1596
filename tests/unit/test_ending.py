"""A service that is ended by SIGTERM leaves nothing behind, and ends by the signal."""

import signal
import subprocess
import sys
from pathlib import Path

TERMINATED = """
import signal, tempfile
from service.ending import tidied_up

with tidied_up(), tempfile.TemporaryDirectory(dir={folder!r}):
    signal.raise_signal(signal.SIGTERM)
print("this is not reached")
"""


def test_temporary_folders_go_where_the_process_is_terminated(tmp_path):
    """As at any other end; the process still says what it was ended by."""
    program = TERMINATED.format(folder=str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGTERM, "", "")
    assert not list(tmp_path.iterdir())
