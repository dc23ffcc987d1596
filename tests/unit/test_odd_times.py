"""Times of objects that are probably not what was meant are a warning before a run; those that were declared are not."""

import json

import pytest

from topology import TopologyBuilder
from topology.odd_input import odd_times


def told(tmp_path, when, options):
    path = tmp_path / "objects.jsonl"
    path.write_text(json.dumps({"id": 1, "ts": when, "x": 0.5, "y": 0.5, "keywords": []}) + "\n")
    builder = TopologyBuilder("times", space=[0, 0, 1, 1], epoch={"objects": 10})
    builder.spout("objects", "object-file", path=str(path), **options)
    builder.bolt("sink", "count").global_("objects", "objects")
    return odd_times(builder.build())


@pytest.mark.parametrize(
    ("ts", "options", "remedy"),
    [
        (40, {}, "try another column of times, or its unit (time_unit)"),
        (1_600_000_000, {}, "try --set spout.objects.time_unit=s"),
        (1_600_000_000, {"time_unit": "ms"}, "try --set spout.objects.time_unit=s"),
        (40, {"time_unit": "ms"}, None),
        (40, {"ts": "row"}, None),
        (1_600_000_000_000, {}, None),
    ],
)
def test_odd_times_are_told_unless_they_are_declared(tmp_path, ts, options, remedy):
    """Numbers that count from 1970 in another unit are always told; small ones only where nobody said what they count."""
    said = told(tmp_path, ts, options)
    assert said is None if remedy is None else remedy in said
