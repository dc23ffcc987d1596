"""Event times: a whole column against one text at a time."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import DeclarationError
from streams.timestamps import MAX_TS, TimeForm, read_time, read_times, ticks_to_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0), ("-17", -17), ("+17", 17), (" 17 ", 17), ("007", 7), (str(MAX_TS - 1), MAX_TS - 1), (str(MAX_TS), None),
        ("1970-01-01", 0), ("1970-01-01T00", 0), ("1970-01-01T00:01", 60_000), ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01t00:00:01,5+00:00", 1_500), ("1969-12-31T23:59:59.9999Z", -1), ("1970-01-01T00:00-01", 3_600_000),
        ("19700102", 19_700_102), ("19700102T00Z", 86_400_000), ("1970-W01-4", 0), ("0001-01-01", -62_135_596_800_000),
        ("", None), ("soon", None), ("0x10", None), ("1_000", None), ("1e3", None), ("1.5", None), ("1970-13-01", None),
        ("1970-02-30", None), ("1970-01-01T24:00:00", None), ("1970-01-01T23:59:60", None), ("0000-01-01", None),
        ("1970-01-01Z", None), ("1970-01-01x00:00", None), ("١٧", None), ("1970-01-01T00:00+24:00", None),
    ],
)  # fmt: skip
def test_read_time_by_example(text, ms):
    """Integers and ISO 8601 are times, cut off towards the past below a millisecond; anything else is none."""
    assert read_time(text) == ms


zones = st.one_of(st.none(), st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zones).map(datetime.isoformat)
zulu = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat().replace("+00:00", "Z"))
naive = st.datetimes().map(lambda moment: moment.isoformat(sep=" "))
awkward = st.text(st.sampled_from("0123456789-:TZ+. x"), max_size=12)
plain = st.integers(-(2**63), 2**63).map(str)
kinds = (moments, zulu, naive, plain, awkward, st.dates().map(str))
columns = st.one_of(
    *[st.lists(st.one_of(kind, kind, kind, st.none()), max_size=6) for kind in (*kinds, st.one_of(*kinds))]
)


forms = st.sampled_from(
    [TimeForm(), TimeForm(), TimeForm("s"), TimeForm(zone="America/Edmonton"), TimeForm(zone="Asia/Kathmandu"),
     TimeForm(pattern="%Y-%m-%d"), TimeForm(pattern="%Y-%m-%d", zone="Europe/Berlin")]
)  # fmt: skip


@given(columns, forms)
def test_read_times_is_read_time_of_each(texts, form):
    """A column of any texts has the times that its texts have one by one."""
    ts, readable = read_times(pa.array(texts, pa.string()), form)
    expected = [None if text is None else read_time(text, form) for text in texts]
    assert readable.tolist() == [ms is not None for ms in expected]
    assert ts.tolist() == [ms or 0 for ms in expected]


@given(st.datetimes(timezones=st.timezones()))
def test_read_time_is_the_moment(moment):
    """A moment with a zone is its milliseconds since 1970, whatever the zone."""
    assert read_time(moment.isoformat()) == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(st.datetimes(datetime(1973, 1, 1), datetime(2100, 1, 1)), st.timezones())
def test_time_without_a_zone_is_one_of_the_declared_zone(moment, zone):
    """It is what the clocks there show, the first time that they show it."""
    ms = (moment.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert read_time(moment.isoformat(), TimeForm(zone=zone.key)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-29 01:59", 1_774_745_940_000),
        ("2026-03-29 02:30", 1_774_747_800_000),  # never shown: as if the clock had not been put forward
        ("2026-03-29 03:00", 1_774_746_000_000),
        ("2026-10-25 02:30", 1_792_888_200_000),  # shown twice: the first
        ("2026-10-25 03:00", 1_792_893_600_000),
        ("2026-10-25T02:30:00+01:00", 1_792_891_800_000),
    ],
)
def test_clocks_are_put_forward_and_back(text, ms):
    """What is shown twice is the first, what is never shown as if nobody had touched the clock; an offset settles it."""
    form = TimeForm(zone="Europe/Berlin")
    assert read_time(text, form) == ms
    assert read_times(pa.array([text]), form)[0].tolist() == [ms]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"zone": "Amerika/Edmonton"}, r"time_zone = 'Amerika/Edmonton' \(did you mean 'America/Edmonton'"),
        ({"pattern": "MM/DD/YYYY"}, "time_format = 'MM/DD/YYYY', expected how times are written"),
        ({"pattern": "%Q"}, "time_format = '%Q'"),
        ({"pattern": "%Y", "unit": "s"}, "give one of both"),
    ],
)
def test_forms_of_times_that_cannot_be_are_refused(form, message):
    """A zone that is none, letters that say nothing, a unit of what is no number."""
    with pytest.raises(DeclarationError, match=message):
        TimeForm(**form)


def test_ticks_become_milliseconds():
    """Finer ticks are cut off towards the past, coarser ones multiplied; what does not fit is beyond the limit."""
    assert ticks_to_ms(np.array([-1, 1_999]), "us").tolist() == [-1, 1]
    assert ticks_to_ms(np.array([-1_000_001]), "ns").tolist() == [-2]
    assert ticks_to_ms(np.array([5]), "ms").tolist() == [5]
    far = ticks_to_ms(np.array([7, 2**62, -(2**62)]), "s")
    assert far[0] == 7_000
    assert (np.abs(far[1:]) >= MAX_TS).all()
