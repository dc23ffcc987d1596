"""Faults as they are declared: which there are, what is wrong with others, and the way to TOML and back."""

import pytest

from streams.errors import DeclarationError
from topology import InvalidTopologyError, TopologyBuilder, dump_topology
from topology.amendments import with_injections
from topology.faults import Fault
from topology.toml import parse_topology
from waterspout.command_line import main

FILE = """
[topology]
runtime = "{runtime}"
{checkpoint}
[spout.numbers]
operator = "operators_for_tests:Numbers"
count = 3
parallelism = 2
[bolt.sink]
operator = "collect"
inputs = [{{ component = "numbers", grouping = "global" }}]
[[inject]]
kind = "rate"
strength = 2.0
[[inject]]
{fault}
"""
CHECKPOINT = '[topology.checkpoint]\ndirectory = "checkpoints"\nkeep = 2'


def parse(fault, runtime="local", checkpoint=CHECKPOINT):
    return parse_topology(FILE.format(fault=fault, runtime=runtime, checkpoint=checkpoint))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('kind = "kill"\ntask = "numbers[1]"\nepoch = 4', Fault("kill", "numbers[1]", 4)),
        ('kind = "pause"\ntask = "sink"\nduration = 250', Fault("pause", "sink", 0, 250)),
        ('kind = "slow"\ntask = "sink"\nstrength = 5\nduration = 3', Fault("slow", "sink", 0, 3, 5.0)),
        ('kind = "drop"\nstrength = 0.5\nseed = 9', Fault("drop", strength=0.5, seed=9)),
        ('kind = "duplicate"\nstrength = 1\nepoch = 2', Fault("duplicate", epoch=2, strength=1.0)),
        ('kind = "corrupt"\nepoch = 8', Fault("corrupt", epoch=8)),
    ],
)
def test_fault_stands_beside_hotspots_and_comes_back_from_toml(text, fault):
    """Faults and injections are told apart by their kind."""
    topology = parse(text)
    assert topology.faults == (fault,)
    assert [one.kind for one in topology.injections] == ["rate"]
    assert parse_topology(dump_topology(topology)) == topology


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ('kind = "kil"', r"<topology>:\d+: .*'kil', expected a hotspot .* \(did you mean 'kill'\?\)"),
        ("task = 'sink'", "the key 'kind' is missing"),
        ('kind = "kill"', r"kind 'kill' needs 'task': a component, or a task: 'evaluator\[2\]'"),
        ('kind = "drop"\nstrength = 1.0\ntask = "sink"', "kind 'drop' takes no 'task'"),
        ('kind = "kill"\ntask = "sinc"', r"no component 'sinc' \(did you mean 'sink'\?\); there are: numbers, sink"),
        ('kind = "kill"\ntask = "numbers[2]"', r"parallelism of 2: expected 'numbers\[1\]' at most"),
        ('kind = "kill"\ntask = "sink"\nepoch = -1', "epoch = -1, expected at least 0"),
        ('kind = "kill"\ntask = "sink"\nduration = 1', "takes no 'duration'"),
        ('kind = "pause"\ntask = "sink"\nduration = 0', "duration = 0, expected at least 1"),
        ('kind = "pause"\ntask = "sink"\nduration = 9999999', "expected at most 3600000"),
        ('kind = "slow"\ntask = "sink"', "needs 'strength': milliseconds an epoch"),
        ('kind = "drop"\nstrength = 1.5', r"strength = 1\.5, expected more than 0 and at most 1 \(a probability\)"),
        ('kind = "drop"\nstrength = nan', "strength = nan"),
        ('kind = "corrupt"\nstrength = 1.0', "takes no 'strength'"),
        ('kind = "kill"\ntask = "sink"\nepok = 3', r"unknown key 'epok' \(did you mean 'epoch'\?\)"),
        ('kind = "corrupt"\n[[inject]]\nkind = "corrupt"', "keep at least 3"),
    ],
)
def test_fault_that_cannot_be_is_refused_with_the_reason(fault, told):
    """What was found, what was expected, and the nearest name."""
    with pytest.raises(DeclarationError, match=told):
        parse(fault)


@pytest.mark.parametrize("kind", ["kill", "drop", "corrupt"])
def test_fault_that_takes_a_run_back_needs_checkpoints(kind):
    """There must be something to go back to."""
    keys = {"kill": '\ntask = "sink"', "drop": "\nstrength = 0.5"}.get(kind, "")
    with pytest.raises(DeclarationError, match=rf"'{kind}' needs checkpoints.*declare \[topology\.checkpoint\]"):
        parse(f'kind = "{kind}"{keys}', checkpoint="")


def test_fault_of_the_wrong_runtime_is_refused():
    """Ray loses and repeats no messages; a worker that is silent for long is replaced, which needs checkpoints."""
    for kind in ("drop", "duplicate"):
        with pytest.raises(DeclarationError, match=f"'{kind}' needs the local runtime"):
            parse(f'kind = "{kind}"\nstrength = 0.5', runtime="ray")
    pause = 'kind = "pause"\ntask = "sink"\nduration = 5000'
    with pytest.raises(DeclarationError, match=r"topology\.ray\.silent_seconds \(5000 ms\)"):
        parse(pause, runtime="ray", checkpoint="")
    assert parse(pause, runtime="ray").faults
    assert parse(pause, checkpoint="").faults


def test_builder_and_command_line_take_faults_as_toml_does():
    """One way to say it everywhere; the whole is checked where it is built."""
    builder = TopologyBuilder("demo", checkpoint={"directory": "checkpoints"})
    builder.spout("numbers", "operators_for_tests:Numbers", count=3)
    builder.bolt("sink", "collect").global_("numbers")
    topology = builder.inject("kill", task="sink", epoch=3).build()
    assert topology.faults == (Fault("kill", "sink", 3),)
    assert with_injections(topology, ['kind="corrupt", epoch=5']).faults[1] == Fault("corrupt", epoch=5)
    with pytest.raises(DeclarationError, match="did you mean 'pause'"):
        builder.inject("pauze", task="sink")
    with pytest.raises(InvalidTopologyError, match="no component 'snk'"):
        builder.inject("kill", task="snk").build()


def test_command_line_refuses_a_fault_that_cannot_be(tmp_path, monkeypatch, capsys):
    """Exit code 2 and one message, before anything starts."""
    path = tmp_path / "topology.toml"
    path.write_text(FILE.format(runtime="local", checkpoint="", fault='kind = "duplicate"\nstrength = 0.1'), "utf-8")
    monkeypatch.setattr("sys.argv", ["waterspout", "run", str(path), "--inject", 'kind="kill", task="sink"'])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "needs checkpoints to go back to" in capsys.readouterr().err
