"""Declarations of Skype and DSkype that cannot run are refused before anything starts, with the key and a way out."""

from pathlib import Path

import pytest

from operators.indexes.topk.buffer_rules import BUFFER_RULES
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.message_indexes import MESSAGE_INDEXES
from streams.errors import DeclarationError
from topology.toml import load_topology

CONF = Path(__file__).parents[2] / "conf"

PARTS = {
    "skype.toml": {"evaluator.index": DISSEMINATIONS, "evaluator.buffers": BUFFER_RULES, "evaluator.messages": MESSAGE_INDEXES},
    "dskype.toml": {"evaluator.index": DISSEMINATIONS, "aggregator.buffers": BUFFER_RULES, "messages.index": MESSAGE_INDEXES},
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_every_part_can_be_chosen_and_a_typo_is_answered_with_what_there_is(name):
    """All parts by name; one letter too many is an error that names the key, the nearest part and all others."""
    for key, known in PARTS[name].items():
        for part in known:
            load_topology(CONF / name, [f"bolt.{key}={part}"])
        nearest = next(iter(known))
        with pytest.raises(DeclarationError) as caught:
            load_topology(CONF / name, [f"bolt.{key}={nearest}s"])
        assert f"bolt.{key}" in str(caught.value)
        assert f"(did you mean '{nearest}'?), expected one of: {', '.join(known)}" in str(caught.value)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("window", ["objects=0", "objects=-1", "objects=1.5", "ms=0", "ms=soon"])
def test_a_window_has_a_positive_length(name, window):
    """Windows of nothing, or of what is no number."""
    with pytest.raises(DeclarationError, match=rf"topology\.window.*{window.split('=')[0]}.* expected an integer"):
        load_topology(CONF / name, [f"topology.window.{window}"])


@pytest.mark.parametrize("name", PARTS)
def test_the_k_best_need_a_window(name, tmp_path, waterspout):
    """Without one it is said what to set, on the command line with exit code 2."""
    path = tmp_path / "endless.toml"
    path.write_text(f'extends = "{CONF / name}"\nwithout = ["topology.window"]\n', encoding="utf-8")
    code, _, err = waterspout("validate", path)
    assert code == 2
    assert "set topology.window.objects or topology.window.ms" in err
