import os

import pytest

from streams import segment_log
from streams.errors import InputError
from streams.segment_log import ExpiredError, LogReader, LogWriter, first_position, kept_from, trim


def _written(folder, frames, **options):
    writer = LogWriter(folder, **options)
    positions = [writer.append([frame]) for frame in frames]
    writer.close()
    return positions


def test_log_gives_back_what_was_appended_across_segments(tmp_path):
    """Frames come back in order and by position, however many segments they are spread over."""
    frames = [bytes([n]) * n for n in range(1, 50)]
    positions = _written(tmp_path, frames, segment_bytes=100)
    assert len(list(tmp_path.glob("*.log"))) > 5
    assert [bytes(frame.data) for frame in LogReader(tmp_path)] == frames
    assert [bytes(frame.data) for frame in LogReader(tmp_path, positions[20])] == frames[20:]
    assert [frame.position for frame in LogReader(tmp_path)] == positions


@pytest.mark.parametrize("cut", [1, 7, 9, 20])
def test_log_cuts_off_what_a_crash_has_torn(tmp_path, cut):
    """A frame that is not whole at the end is not there, and the next writer goes on in its place."""
    _written(tmp_path, [b"a" * 10, b"b" * 20])
    (path,) = tmp_path.glob("*.log")
    os.truncate(path, path.stat().st_size - cut)
    assert [bytes(frame.data) for frame in LogReader(tmp_path)] == [b"a" * 10]
    _written(tmp_path, [b"c"])
    assert [bytes(frame.data) for frame in LogReader(tmp_path)] == [b"a" * 10, b"c"]


def test_log_does_not_pass_over_damage_in_the_middle(tmp_path):
    """A damaged frame with others behind it, in a later segment, is an error: nothing is left out silently."""
    positions = _written(tmp_path, [b"a" * 100, b"b" * 100, b"c" * 100], segment_bytes=150)
    first = sorted(tmp_path.glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[positions[1] + 20] ^= 1
    first.write_bytes(data)
    with pytest.raises(InputError, match="damaged at byte 108"):
        list(LogReader(tmp_path))


def test_log_readers_follow_a_writer(tmp_path):
    """A reader that has come to the end finds what is appended later, also in the next segment."""
    writer = LogWriter(tmp_path, segment_bytes=30)
    reader = LogReader(tmp_path)
    assert reader.read() == []
    for n in range(10):
        writer.append([b"%d" % n * 10])
        writer.flush()
        assert [bytes(frame.data) for frame in reader.read()] == [b"%d" % n * 10]
    writer.close()


def test_log_trims_whole_segments_and_says_so(tmp_path):
    """What is trimmed is gone for readers, with an error that says from where the log goes on; the last segment stays."""
    positions = _written(tmp_path, [b"x" * 40 for _ in range(6)], segment_bytes=90)
    trim(tmp_path, positions[4])
    assert first_position(tmp_path) == positions[4]
    with pytest.raises(ExpiredError) as expired:
        LogReader(tmp_path, positions[1]).read()
    assert expired.value.first == positions[4]
    assert len(list(LogReader(tmp_path, positions[4]))) == 2
    trim(tmp_path, 10**9)
    assert len(list(LogReader(tmp_path, positions[4]))) == 2


def test_log_has_one_writer(tmp_path, monkeypatch):
    """A second writer is refused while the first has the log open."""
    monkeypatch.setattr("streams.segment_log.LOCK_SECONDS", 0.05)
    writer = LogWriter(tmp_path)
    with pytest.raises(InputError, match="written by another process"):
        LogWriter(tmp_path)
    writer.close()
    LogWriter(tmp_path).close()


def _killed(folder, frames):
    """Write frames as one that is killed before they are closed."""
    writer = LogWriter(folder, leaping=True)
    positions = [writer.append([frame]) for frame in frames]
    writer.flush()
    os.close(writer._lock)
    return positions


def test_log_goes_on_in_its_place_after_a_kill(tmp_path):
    """What a killed process has written is with the system, so positions go on where they were."""
    first = _killed(tmp_path, [b"a" * 10])
    second = _killed(tmp_path, [b"b" * 10])
    assert second == [first[0] + 18]
    LogWriter(tmp_path, leaping=True).close()
    assert _killed(tmp_path, [b"c"]) == [second[0] + 18]


@pytest.mark.parametrize("note", ["another start of the machine", "", None])
def test_positions_that_were_lost_with_the_machine_are_never_used_again(tmp_path, note):
    """Behind a loss a log goes on far away: readers pass over the gap, and who names a lost position is told so."""
    kept, lost, _ = _killed(tmp_path, [b"a" * 10, b"b" * 10, b"c" * 10])
    (path,) = tmp_path.glob("*.log")
    os.truncate(path, lost + 3)
    follower = LogReader(tmp_path)
    assert [bytes(frame.data) for frame in follower] == [b"a" * 10]
    (tmp_path / "opened").unlink() if note is None else (tmp_path / "opened").write_text(note)
    (new,) = _killed(tmp_path, [b"d" * 10])
    assert new == segment_log.LEAP
    assert [bytes(frame.data) for frame in follower] == [b"d" * 10]
    assert [bytes(frame.data) for frame in LogReader(tmp_path, kept)] == [b"a" * 10, b"d" * 10]
    assert [bytes(frame.data) for frame in LogReader(tmp_path, lost)] == [b"d" * 10]
    with pytest.raises(ExpiredError) as caught:
        list(LogReader(tmp_path, lost + 18))
    assert caught.value.first == new
    (tmp_path / "opened").write_text("a third one")
    assert _killed(tmp_path, [b"e"]) == [2 * segment_log.LEAP]
    assert [bytes(frame.data)[:1] for frame in LogReader(tmp_path)] == [b"a", b"d", b"e"]


def test_what_is_kept_is_counted_in_bytes_and_not_in_positions(tmp_path):
    """A gap takes no room: the newest bytes lie on both sides of it."""
    _killed(tmp_path, [b"a" * 100])
    (tmp_path / "opened").write_text("another start of the machine")
    _killed(tmp_path, [b"b" * 50])
    assert kept_from(tmp_path, 58) == segment_log.LEAP
    assert kept_from(tmp_path, 59) == 0
    assert trim(tmp_path, kept_from(tmp_path, 58)) == 108
    assert first_position(tmp_path) == segment_log.LEAP
