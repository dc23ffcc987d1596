"""The service: a folder, the intake and its journal, the engine, and the hub that pushes what the engine finds."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operators.balancing.balancer import REBALANCE
from operators.spouts.journal import unpack_entry
from service.bodies import BodyLimits
from service.engine_process import EngineProcess
from service.figure_windows import FigureWindows
from service.hub import Hub
from service.intake import Accepted, Intake, Operation, Rules, TimeOf
from service.journal_writer import BusyError, JournalError, JournalWriter, WriterSettings
from service.problems import ProblemError
from service.rehearsal import prepare_rehearsal
from service.state_folder import StateFolder
from service.task_figures import FIGURES
from streams.event_log import EventLog
from streams.files.object_form import ObjectForm
from streams.files.prepared import shared_vocabulary
from streams.segment_log import LogReader, LogWriter, first_position, kept_from, trim
from streams.vocabulary import Encoder
from topology.amendments import source_of
from topology.declaration import Topology
from topology.input_files import with_keywords, with_vocabulary
from topology.kept_objects import kept_ms_of
from topology.metric import with_metric
from topology.validation import make_operator
from topology.wiring import answers_of

__all__ = ["Service", "ServiceSettings", "rules_of"]

log = EventLog()


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How a service behaves; all bounds are here.

    Attributes:
        durable: the folder outlasts the service, so what is accepted survives.
        time: whose time records without one get.
        ahead_ms: with times of arrival, so far ahead of the clock a time may be that is given.
        backlog_objects: so many objects may wait for the engine; beyond, publishing is refused for a while.
        journal_bytes: the journal may be so long in front of the oldest checkpoint.
        retain_bytes: so much of the results is kept for those who come back.
        queue_lines: so many lines wait for a subscriber at most.
        subscribers: so many may be there.
        ask_seconds: how long an answer may take, once its kernels are there.
        compile_seconds: how long an answer may take where kernels are compiled for it.
        keep_seconds: how often old parts of the logs are deleted.
    """

    durable: bool = True
    time: TimeOf = "arrival"
    ahead_ms: int = 600_000
    backlog_objects: int = 1_000_000
    journal_bytes: int = 8 << 30
    retain_bytes: int = 1 << 30
    queue_lines: int = 10_000
    subscribers: int = 10_000
    ask_seconds: float = 10.0
    compile_seconds: float = 240.0
    keep_seconds: float = 5.0
    writer: WriterSettings = field(default_factory=WriterSettings)


def rules_of(declared: Topology, time: TimeOf, ahead_ms: int | None = None) -> Rules:
    """Return what records are judged by in a topology."""
    settings = declared.settings
    objects = make_operator(source_of(declared, "leads"), declared)
    form: ObjectForm = objects.form
    queries = make_operator(source_of(with_keywords(declared), "follows"), declared)
    return Rules(
        space=settings.space,
        metric=settings.measure,
        dynamic=objects.dynamic,
        answers=answers_of(declared),
        kept_ms=kept_ms_of(declared),
        limits=settings.limits.reading(),
        tracks_words=any(item.stream == "words" for c in declared.components for item in c.inputs),
        tokenise=queries.cuts_keywords,
        form=dataclasses.replace(form, row_ids=False, row_times=False, stamped=True),
        time=time,
        ahead_ms=ahead_ms,
    )


class Service:
    """All of it, for one event loop.

    Attributes:
        declared: the topology as its file has it.
        live: what the engine runs of it.
    """

    def __init__(self, declared: Topology, folder: Path, settings: ServiceSettings | None = None) -> None:
        self.settings = settings or ServiceSettings()
        self.declared = with_metric(with_vocabulary(declared))
        self.folder = StateFolder(folder)
        self.folder.prepare(self.declared)
        self.live = self.folder.live(self.declared)
        rules = rules_of(self.declared, self.settings.time, self.settings.ahead_ms)
        self.intake = self._intake(rules)
        self.hub = Hub(self.folder.results, self.intake.registrations)
        self.engine = EngineProcess(self.folder.path, self.hub.follow)
        self.bodies = BodyLimits()
        self.accepted = self.refused = self.busy = 0
        self._writer: JournalWriter | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._beginner: asyncio.Task[None] | None = None
        self._reach = first_position(self.folder.journal)
        self._saved_at = self._hub_saved = 0
        self.stopping = False
        self.figures: dict[str, Any] = {}
        self.windows = FigureWindows()
        self.engine.handlers[FIGURES] = self._take_figures

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Go on where the service was, and start the engine."""
        known = self.folder.saved()
        position = 0
        if known is not None:
            self.intake.restore(known["intake"])
            position = known["journal"]
        LogWriter(self.folder.journal).close()  # mends the end of the journal before it is read
        reader = LogReader(self.folder.journal, position)
        for frame in reader:
            self.intake.replay(unpack_entry(frame))
        reader.close()
        self.hub.restore(known["hub"] if known is not None else None)
        self._saved_at, self._hub_saved = position, known["hub"]["position"] if known is not None else 0
        self._writer = JournalWriter(self.folder.journal, self.intake, self._committed, self.settings.writer)
        self._beginner = asyncio.create_task(self._begin())
        self._keeper = asyncio.create_task(self._keep())

    def _intake(self, rules: Rules) -> Intake:
        encoder = Encoder(
            shared_vocabulary(self.declared.settings.vocabulary),
            track_words=rules.tracks_words,
            remember=rules.limits.words,
        )
        return Intake(rules, encoder)

    async def _begin(self) -> None:
        """Start the engine, with something to rehearse: whoever comes when it is ready waits for no compilation."""
        await prepare_rehearsal(self._intake(self.intake.rules), self.folder.rehearsal)
        self.engine.start()

    async def stop(self) -> None:
        """Accept nothing more, let the engine come to rest, and end."""
        self.stopping = True
        if self._beginner is not None:
            self._beginner.cancel()
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        await self.engine.stop()
        self.hub.follow()
        for subscription in list(self.hub.subscriptions):
            subscription.ended = True
            subscription.changed.set()

    def _take_figures(self, figures: dict[str, Any]) -> None:
        self.figures = figures
        self.windows.note(time.monotonic(), figures)

    def _committed(self) -> None:
        self.engine.wake()

    @property
    def writer(self) -> JournalWriter:
        """Who writes the journal."""
        assert self._writer is not None, "the service has not started"
        return self._writer

    @property
    def writer_is_open(self) -> bool:
        """Tell whether the service has started, so that something can be published."""
        return self._writer is not None and self._keeper is not None

    @property
    def rebalances(self) -> bool:
        """Tell whether somebody in the topology takes the order to move load."""
        return any(item.stream == REBALANCE for component in self.live.components for item in component.inputs)

    @property
    def ready(self) -> bool:
        """Tell whether what is published now is evaluated now."""
        return self.engine.status.state == "running" and self.writer.failure is None

    # --- what arrives ----------------------------------------------------------------------------------------------

    async def submit(self, job: Callable[[Intake, int], Any], size: int = 0) -> Any:
        """Let a job judge a request and journal what comes of it; raise a problem where too much waits."""
        if self.engine.status.state == "failed":
            raise ProblemError("not-ready", f"the topology has failed: {self.engine.status.reason}")
        waiting = self.intake.seq - self.engine.status.objects
        kept = self.writer.position - self._reach
        try:
            if waiting > self.settings.backlog_objects:
                raise BusyError(f"{waiting:,} objects wait to be evaluated")
            if kept > self.settings.journal_bytes:
                raise BusyError(f"the journal has {kept:,} bytes in front of the oldest checkpoint", 10)
            return await self.writer.submit(job, size)
        except JournalError as error:
            raise ProblemError("not-ready", error.what, headers={"Retry-After": str(error.seconds)}) from None
        except BusyError as error:
            self.busy += 1
            raise ProblemError("busy", error.what, headers={"Retry-After": str(error.seconds)}) from None

    async def objects(self, lines: bytes) -> Accepted:
        """Publish objects."""
        accepted: Accepted = await self.submit(lambda intake, now: intake.objects(lines, now), len(lines))
        self.accepted += accepted.count
        self.refused += len(accepted.rejected)
        return accepted

    async def operations(self, asked: list[Operation], source: str, *, at_once: bool = False) -> Accepted:
        """Register queries, replace them, end them."""
        found: Accepted = await self.submit(
            lambda intake, now: intake.operations(asked, now, source, at_once=at_once), 256 * len(asked)
        )
        return found

    async def ask(self, operation: Operation) -> bytes:
        """Return the answer to a query that is asked once, as a line of results."""
        waiting: dict[int, Future[bytes]] = {}

        def job(intake: Intake, now: int) -> Accepted:
            accepted = intake.operations([operation], now, "POST /queries:ask", at_once=True)
            waiting.update((number, self.hub.asked(number)) for number in accepted.numbers.values())
            return accepted

        try:
            accepted: Accepted = await self.submit(job, 256)
            if accepted.rejected:
                raise ProblemError("invalid", accepted.rejected[0][1])
            (answer,) = waiting.values()
            return await self._answered(asyncio.wrap_future(answer))
        finally:
            for number in waiting:
                self.hub.forget(number)

    async def _answered(self, answer: asyncio.Future[bytes]) -> bytes:
        """Wait for an answer; while the engine starts or compiles kernels it is as if no time went by, up to a bound."""
        status, seconds = self.engine.status, self.settings.ask_seconds
        until = time.monotonic() + self.settings.compile_seconds
        while True:
            begun, kernels = status.state == "running", status.kernels
            done, _ = await asyncio.wait([answer], timeout=seconds)
            if done:
                return answer.result()
            if begun and not status.compiling and status.kernels == kernels:
                raise ProblemError("no-answer", f"no answer within {seconds:g} s")
            if time.monotonic() > until or status.state == "failed":
                raise ProblemError(
                    "no-answer",
                    f"no answer yet: the topology is {status.state}, and has compiled {status.kernels} kernels so far, "
                    "which it does once on a machine; ask again later",
                    headers={"Retry-After": "10"},
                )

    # --- housekeeping ----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Now and then save what the service knows, and delete what nobody needs any more."""
        while True:
            await asyncio.sleep(self.settings.keep_seconds)
            try:
                await self.tidy()
            except (OSError, BusyError, ProblemError) as error:
                log.warning("logs_not_trimmed", error=str(error))

    async def tidy(self) -> None:
        """Save what the service knows where that lets go of parts of the logs, and delete these."""
        reach = await asyncio.to_thread(self.folder.reach, self.live)
        if reach is None:
            return
        self._reach = reach.journal
        if first_position(self.folder.journal) + (64 << 20) <= reach.journal or self._saved_at == 0:
            await self._save()
        trim(self.folder.journal, min(reach.journal, self._saved_at))
        kept = min(reach.results, kept_from(self.folder.results, self.settings.retain_bytes), self._hub_saved)
        trim(self.folder.results, kept)

    async def _save(self) -> None:
        hub = self.hub.snapshot()
        known, position = await self.writer.submit(lambda intake, _now: (intake.snapshot(), self.writer.position))
        await asyncio.to_thread(self.folder.save, {"intake": known, "journal": position, "hub": hub})
        self._saved_at, self._hub_saved = position, hub["position"]
