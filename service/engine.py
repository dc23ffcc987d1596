"""The engine: a process that runs the topology of a service, and ends with it.

It is started by `service.engine_process` with a folder and one end of a socket. What it runs is in the folder, what it has done
too, so that the next one goes on where this one was killed.
"""

import importlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from partitioners.plans.plan import load as load_plan
from partitioners.plans.plan import save as save_plan
from service.channel import EngineChannel, ServiceGoneError
from service.promptness import prompt_threads
from service.rehearsal import rehearse
from service.state_folder import StateFolder
from service.watchers import Watchers
from streams.errors import DeclarationError, InputError, WaterspoutError
from streams.event_log import EventLog
from streams.segment_log import first_position
from topology.cli.logs import configure_logs
from topology.declaration import Topology
from topology.kernel_notice import compilations
from topology.plan_request import EVALUATOR
from topology.planning import plan_of
from topology.run import Progress, run

__all__ = ["main", "runnable"]

log = EventLog()

#: So often the service is told of a run in which nothing happens.
QUIET_SECONDS = 0.2


def runnable(folder: StateFolder) -> Topology:
    """Return the topology of a folder with a plan, made from the declared input where there is none for so many evaluators."""
    declared = folder.declared()
    live = folder.live(declared)
    planned = folder.planned(live)
    if planned is not live and not _is_for(live.component(EVALUATOR).parallelism, folder.plan):
        plan = plan_of(declared)
        assert plan is not None, "somebody needs one"
        save_plan(plan, folder.plan)
    return planned


def _is_for(workers: int, path: Path) -> bool:
    importlib.import_module("partitioners.builders.registry")  # makes all classes of plans known
    return path.exists() and load_plan(path).workers == workers


def _resumed(folder: StateFolder, live: Topology) -> str | None:
    """Return where to go on from; None at the very start."""
    if folder.reach(live) is not None:
        assert live.settings.checkpoint is not None
        return str(live.settings.checkpoint.directory)
    if first_position(folder.journal) > 0:
        raise InputError(
            f"{folder.path} has no whole checkpoint, but the start of its journal is gone; bring the checkpoints back, or "
            "start with an empty folder"
        )
    return None


class _Run:
    """The run, as the service hears of it."""

    def __init__(self, channel: EngineChannel) -> None:
        self._channel = channel
        self._woken, self.stopped = threading.Event(), threading.Event()
        self._told: tuple[int, int] | None = None
        self._told_at = 0.0
        self.watchers = Watchers(channel.send)

    def listen(self) -> None:
        """Take what the service says; when it is gone, nobody wants this process any more."""
        for kind, *values in self._channel.messages():
            if kind == "stop":
                self.stopped.set()
            elif kind != "wake":
                self.watchers.hear(kind, *values)
            self._woken.set()
        os._exit(1)

    def wait(self, seconds: float) -> None:
        """Return when something has arrived, or after some seconds."""
        self._woken.wait(seconds)
        self._woken.clear()

    def wanted(self) -> bool:
        """Tell whether something has arrived, or the end is wanted."""
        return self._woken.is_set() or self.stopped.is_set()

    def progress(self, progress: Progress) -> None:
        """Send how far the run is; of epochs in which nothing came, some are enough."""
        reached, now = (progress.objects, progress.results), time.monotonic()
        if reached == self._told and now - self._told_at < QUIET_SECONDS:
            return
        self._told, self._told_at = reached, now
        self._channel.send("ack", progress.epochs, progress.pending, *reached)


def main(folder: str, descriptor: int) -> int:
    """Run the topology of a folder until the service says otherwise."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # these go to a whole group of processes; the service says when to stop
    configure_logs()
    prompt_threads()
    channel = EngineChannel(socket.socket(fileno=descriptor))
    told = _Run(channel)
    threading.Thread(target=told.listen, daemon=True).start()
    try:
        state = StateFolder(Path(folder))
        live = runnable(state)
        resume = _resumed(state, live)
        channel.send("started", os.getpid(), resume is not None, time.time())
        with compilations(lambda count, under_way: channel.send("kernels", count, under_way)):
            if resume is None:  # who goes on has better things to do
                rehearse(live, state.declared(), state.rehearsal, told.wanted)
            outcome = run(
                live,
                on_progress=told.progress,
                should_stop=told.stopped.is_set,
                wait=told.wait,
                resume=resume,
                watcher=told.watchers,
            )
    except ServiceGoneError:
        os._exit(1)  # nobody wants this process any more, nor what it says
    except WaterspoutError as error:
        hopeless = isinstance(error, DeclarationError | InputError)  # it would be the same again
        channel.send("failed", str(error), hopeless)
        return 1
    except Exception as error:
        channel.send("failed", f"{type(error).__name__}: {error}", False)
        raise
    channel.send("ended", _plain(outcome.summary))
    return 0


def _plain(summary: dict[str, Any]) -> dict[str, Any]:
    return {key: summary[key] for key in ("objects", "queries", "results", "rejected", "epochs") if key in summary}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
