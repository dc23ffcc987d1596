import asyncio
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from operators.sinks.published import ResultFrame, pack_results
from service.engine_process import EngineStatus
from service.hub import CursorError, Hub
from service.intake import Accepted, Operation
from service.registrations import Registrations
from service.service import Service, ServiceSettings
from service.subscriptions import Cursor, key_of
from streams.segment_log import ExpiredError, LogWriter, trim


def _line(query, n):
    return b'{"query":"%b","ts":%d,"object":%d}\n' % (query, n, n)


class Log:
    """A log of results that a test writes, and the hub that follows it."""

    def __init__(self, folder: Path, **options):
        self.writer = LogWriter(folder, **options)
        self.hub = Hub(folder, Registrations(10))
        self.count = 0

    def add(self, *queries):
        lines = b"".join(_line(query, self.count + n) for n, query in enumerate(queries))
        self.count += len(queries)
        self.writer.append(pack_results(ResultFrame(), lines, np.zeros(len(queries), np.int64)))
        self.writer.flush()
        self.hub.follow()


async def _taken(hub, subscription, count):
    found = []
    async for lines in hub.read(subscription):
        found += [(Cursor(frame.position, row), frame.lines[row]) for frame, row in lines]
        if len(found) >= count:
            break
    return found


def _run(test):
    return asyncio.run(asyncio.wait_for(test, 20))


def _subscribe(log, keys=None, policy="block", limit=1_000, cursor=None):
    return log.hub.subscribe(keys, policy, limit, log.hub.cursor(cursor))


def test_a_subscriber_who_comes_back_at_any_line_misses_nothing(tmp_path):
    """From every cursor on, what follows is exactly the rest, be it read from the log or pushed."""

    async def test():
        log = Log(tmp_path)
        start = str(log.hub.cursor(None))
        for _ in range(5):
            log.add(b"a", b"b", b"a")
        whole = await _taken(log.hub, _subscribe(log, cursor=start), 15)
        for n, (cursor, _) in enumerate(whole):
            again = _subscribe(log, cursor=str(cursor))
            log.add(b"c")
            rest = await _taken(log.hub, again, 15 - n - 1 + n + 1)
            assert [line for _, line in rest[: 14 - n]] == [line for _, line in whole[n + 1 :]]
            assert len(rest) == 15

    _run(test())


def test_subscribers_get_the_queries_they_named(tmp_path):
    """A line goes to those who named its query, and to those who want all."""

    async def test():
        log = Log(tmp_path)
        some, all_ = _subscribe(log, [key_of("a"), key_of("c")]), _subscribe(log)
        log.add(b"a", b"b", b"c", b"b")
        assert [line for _, line in await _taken(log.hub, some, 2)] == [_line(b"a", 0)[:-1], _line(b"c", 2)[:-1]]
        assert len(await _taken(log.hub, all_, 4)) == 4

    _run(test())


def test_one_who_does_not_read_holds_a_bounded_number_of_lines(tmp_path):
    """Whatever the policy, never more lines wait than the bound; what was dropped is counted."""

    async def test():
        log = Log(tmp_path)
        subscriptions = {
            policy: _subscribe(log, policy=policy, limit=10)
            for policy in ("block", "drop-oldest", "latest-only", "disconnect")
        }
        for one in subscriptions.values():
            one.behind = False
        for _ in range(50):
            log.add(b"a", b"b", b"c")
            assert all(one.waiting <= 10 for one in subscriptions.values())
        oldest, latest = subscriptions["drop-oldest"], subscriptions["latest-only"]
        assert oldest.dropped == 140
        assert [line for _, line in await _taken(log.hub, oldest, 10)] == [
            _line(b"abc"[n % 3 : n % 3 + 1], n)[:-1] for n in range(140, 150)
        ]
        assert latest.dropped == 147
        assert len(await _taken(log.hub, latest, 3)) == 3
        assert subscriptions["disconnect"].ended
        assert len(await _taken(log.hub, subscriptions["block"], 150)) == 150
        assert subscriptions["block"].dropped == 0

    _run(test())


def test_a_slow_subscriber_of_a_rare_query_goes_back_no_further_than_needed(tmp_path):
    """One who is thrown back to the log begins at the first line that waited for him, not at the last that he got."""

    async def test():
        log = Log(tmp_path, segment_bytes=200)
        one = _subscribe(log, [key_of("rare")], limit=2)
        one.behind = False
        for _ in range(100):
            log.add(b"other")
        trim(tmp_path, log.hub.position)
        for _ in range(3):
            log.add(b"rare")
        assert one.behind
        assert len(await _taken(log.hub, one, 3)) == 3

    _run(test())


def test_cursors_that_are_none_are_told_from_those_that_expired(tmp_path):
    """What was never given, what is no longer kept, and what is in the future are errors; none is silently another place."""

    async def test():
        log = Log(tmp_path, segment_bytes=200)
        for _ in range(20):
            log.add(b"a", b"b")
        trim(tmp_path, log.hub.position)
        for text, expired in (
            ("", False),
            ("x", False),
            ("1-", False),
            ("-1", False),
            ("99999999", False),
            ("0-0", True),
        ):
            with pytest.raises(CursorError) as error:
                log.hub.cursor(text)
            assert error.value.expired == expired, text
        first = next(iter(sorted(int(path.stem) for path in tmp_path.glob("*.log"))))
        with pytest.raises(CursorError):
            log.hub.cursor(f"{first + 1}-0")
        with pytest.raises(CursorError):
            log.hub.cursor(f"{first}-2")
        assert log.hub.cursor(f"{first}-1") == Cursor(first, 1)

    _run(test())


def test_one_who_is_too_slow_for_what_is_kept_is_told(tmp_path):
    """Whose place is trimmed while he is behind gets an error, never a gap."""

    async def test():
        log = Log(tmp_path, segment_bytes=200)
        log.add(b"a")
        one = _subscribe(log, cursor="0-0")
        for _ in range(50):
            log.add(b"a")
        trim(tmp_path, log.hub.position)
        with pytest.raises(ExpiredError):
            await _taken(log.hub, one, 50)

    _run(test())


def test_answer_that_comes_before_the_disk_has_the_question_is_not_missed(tmp_path):
    """The engine may read a question, and answer it, while the journal still waits for the disk."""
    log = Log(tmp_path)

    class Fast(Service):
        """A service whose engine is faster than its disk."""

        def __init__(self):
            self.hub, self.settings = log.hub, ServiceSettings(ask_seconds=5.0)
            self.engine = SimpleNamespace(status=EngineStatus())

        async def submit(self, job, _size):
            asked = job(Asked(), 0)
            log.add(b"asked")
            return asked

    class Asked:
        """An intake that gives the question the number of the answer."""

        def operations(self, operations, _now, _source, *, at_once):
            assert at_once
            return Accepted(None, len(operations), numbers={"asked": 0})

    assert asyncio.run(Service.ask(Fast(), Operation("register", "asked"))) == _line(b"asked", 0).rstrip()
