"""The same tasks as real Ray actors: the same results, clear ends."""

import dataclasses
import os
import re
import signal
from collections import Counter

import pytest
from adaptive_inputs import adaptive_topology, restless
from operators_for_tests import ByParity, Counts, Director, Doubler, FailsAt, Halver, Numbers, Prints, Tagged
from range_inputs import assert_exact, range_topology, write_inputs
from ray.exceptions import RaySystemError
from view_inputs import Recorder

from benchmarks.transport import worker_pids
from streams.errors import DeclarationError, InputError, RunError, TaskFailedError
from topology import TopologyBuilder, run
from topology.declaration import CheckpointSettings
from topology.ray_runtime import driver
from topology.ray_runtime.cluster import connect, lost_ray
from topology.run import Outcome

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def test_own_cluster_listens_on_loopback_only():
    """Nothing of a cluster that we start can be reached from another machine."""
    import ray

    assert [node["NodeManagerAddress"] for node in ray.nodes()] == ["127.0.0.1"]


def everything(count=200, workers=0):
    """Every grouping, a tick and a feedback edge in one topology."""
    builder = TopologyBuilder("everything", max_pending=4, ray={"workers": workers})
    builder.spout("numbers", Numbers, parallelism=2, count=count, size=20)
    builder.bolt("double", Doubler, parallelism=2).local_or_shuffle("numbers")
    builder.bolt("director", Director).partial_key("numbers", ["word"])
    builder.bolt("tagged", Tagged, parallelism=2).direct("director").custom("double", ByParity).all("numbers")
    builder.bolt("halver", Halver, parallelism=2).none("double").fields("halver", ["number"], "again", feedback=True)
    builder.bolt("counts", Counts, tick={"epochs": 3}).fields("double", ["word"])
    builder.bolt("sink", "collect").global_("tagged").global_("halver").global_("counts")
    return builder.build()


def rows(outcome: Outcome):
    return Counter(row for batch in outcome.collected for row in batch.rows())


@pytest.mark.parametrize("workers", [1, 2, 100])
def test_ray_gives_the_local_results(workers):
    """Every tuple of a topology with all groupings, ticks and feedback is the same, however tasks are packed."""
    topology = everything(workers=workers)
    local, distributed = run(topology), run(topology, runtime="ray")
    assert rows(distributed) == rows(local)
    for key in ("results", "evaluators"):
        assert distributed.summary[key] == local.summary[key]


@pytest.mark.parametrize("evaluators", [1, 4])
def test_range_topology_on_ray_is_exact(tmp_path, evaluators):
    """Alerts on Ray equal the oracle's."""
    topology = range_topology(*write_inputs(tmp_path, 11), evaluators=evaluators, epoch={"objects": 5, "queries": 7})
    assert_exact(topology, runtime="ray")


def test_failing_operator_on_ray_ends_the_run_with_its_traceback():
    """The operator's own line and the task's name cross the process border."""
    builder = TopologyBuilder("fails")
    builder.spout("numbers", Numbers, count=100)
    builder.bolt("picky", FailsAt, parallelism=2).shuffle("numbers")
    with pytest.raises(TaskFailedError) as caught:
        run(builder.build(), runtime="ray")
    assert caught.value.task.startswith("picky[")
    assert caught.value.epoch == 5
    assert 'raise ZeroDivisionError(f"cannot digest {self.number}")' in caught.value.details


def test_print_in_a_bolt_is_seen_where_the_run_was_started(capsys):
    """Every line of every task, what is printed at the end too, and a line that nobody ends; locally as on Ray."""
    builder = TopologyBuilder("prints", ray={"workers": 2})
    builder.spout("numbers", Numbers, count=60)
    builder.bolt("prints", Prints, parallelism=2).shuffle("numbers")
    for runtime in ("local", "ray"):
        run(builder.build(), runtime=runtime)
        out = capsys.readouterr().out
        assert sorted(map(int, re.findall(r"number (\d+)\n", out))) == list(range(60))
        assert out.count("[closed]") == 2


def test_unusable_file_on_ray_is_an_input_error(tmp_path):
    """A file without the needed columns is the user's to mend, on Ray as anywhere."""
    objects, queries = write_inputs(tmp_path, 1)
    bad = tmp_path / "bad.csv"
    bad.write_text("name,when\na,1\n", "utf-8")
    with pytest.raises((InputError, DeclarationError), match=r"bad\.csv"):
        run(range_topology(bad, queries), runtime="ray")
    assert objects.exists()


def endless(workers=0):
    builder = TopologyBuilder("endless", max_pending=2, ray={"workers": workers})
    builder.spout("numbers", Numbers, count=10**9, size=10)
    builder.bolt("tagged", Tagged, parallelism=2).shuffle("numbers")
    builder.bolt("sink", "count").global_("tagged")
    return builder.build()


@pytest.mark.parametrize(
    ("workers", "names"),
    [(2, r"(numbers\[0\], tagged\[1\]|tagged\[0\], sink\[0\])"), (100, r"(numbers|tagged|sink)\[\d\]")],
)
def test_killed_worker_ends_the_run_by_the_names_of_its_tasks(workers, names):
    """A process that is killed takes its tasks along: they are named in the error, and nothing hangs."""
    killed = []

    def kill_one(progress):
        if progress.epochs >= 5 and not killed:
            killed.append(max(worker_pids()))
            os.kill(killed[0], signal.SIGKILL)

    told = rf"the worker of {names} died while epochs \d+ to \d+ were under way.*declare \[topology\.checkpoint\]"
    with pytest.raises(RunError, match=told):
        run(endless(workers), runtime="ray", on_progress=kill_one)
    assert killed


def test_stop_on_ray_drains_and_ends():
    """A run that is asked to stop completes what is under way, and every tuple that went in came out."""
    seen = []
    outcome = run(endless(), runtime="ray", on_progress=seen.append, should_stop=lambda: len(seen) > 20)
    assert outcome.summary["results"] > 0
    spout = next(task for task in outcome.summary["tasks"] if task["task"] == "numbers[0]")
    assert outcome.summary["results"] == spout["emitted"]


def test_stop_on_ray_lets_feedback_settle():
    """Numbers that go round for several epochs when somebody asks to stop are all there at the end."""
    builder = TopologyBuilder("loop", max_pending=3, epoch={"feedback": 2}, ray={"workers": 2})
    builder.spout("numbers", Numbers, count=10**9, size=32)
    loop = builder.bolt("loop", Halver, parallelism=3).shuffle("numbers")
    loop.fields("loop", ["number"], "again", feedback=True)
    builder.bolt("sink", "collect").global_("loop")
    seen = []
    outcome = run(builder.build(), runtime="ray", on_progress=seen.append, should_stop=lambda: len(seen) > 20)
    found = rows(outcome)
    emitted = sum(found.values())
    assert emitted >= 20 * 32
    assert found == Counter((n // (n & -n) if n else 0, f"w{n % 7}") for n in range(emitted))


def test_ray_that_is_gone_ends_the_run_with_what_to_do(tmp_path, monkeypatch):
    """One message, with the folder to resume from where there is one: whether Ray raises or somebody finds it gone."""
    seen = []
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(driver, "lost_ray", lambda: "nobody answers" if len(seen) > 5 else None)
    told = r"the run has lost Ray: nobody answers; declare \[topology\.checkpoint\] with a"
    with pytest.raises(RunError, match=told):
        run(endless(1), runtime="ray", on_progress=seen.append)
    seen.clear()

    def gone(*_args):
        raise RaySystemError("The control store is gone\nand much more")

    monkeypatch.setattr(driver.RayRuntime, "_conduct", gone)
    saving = dataclasses.replace(endless(1).settings, checkpoint=CheckpointSettings(str(tmp_path)))
    with pytest.raises(RunError, match=rf"lost Ray: .*go on from its newest checkpoint with --resume {tmp_path}$"):
        run(dataclasses.replace(endless(1), settings=saving), runtime="ray")


def test_ray_that_is_there_is_not_missed(monkeypatch):
    """All of it answers; a raylet or a control store that does not is named."""
    from ray._private.worker import global_worker

    assert lost_ray() is None
    monkeypatch.setattr(type(global_worker.node), "gcs_address", property(lambda _self: "127.0.0.1:1"))
    assert lost_ray().startswith("the control store of the cluster does not answer")
    monkeypatch.setattr(type(global_worker.node), "raylet_socket_name", property(lambda _self: "/nowhere"))
    assert lost_ray().startswith("the raylet of this node does not answer")


def test_unreachable_cluster_is_a_clear_error():
    """An address where no cluster is gives one sentence, not a traceback of Ray's."""
    import ray

    ray.shutdown()
    try:
        with pytest.raises(RunError, match=r"cannot join the Ray cluster at '127\.0\.0\.1:1'"):
            run(endless(), runtime="ray", address="127.0.0.1:1")
    finally:
        connect(None)


def test_watcher_on_ray_is_shown_what_it_is_shown_locally(tmp_path):
    """Samples of objects and alerts, plans and moves reach the driver, epoch by epoch the same."""
    topology = adaptive_topology(*write_inputs(tmp_path, 3, objects=150), balancer=restless("random", 3))
    seen = []
    for runtime in ("local", "ray"):
        recorder = Recorder()
        run(topology, runtime=runtime, watcher=recorder)
        seen.append(Counter((epoch, *sorted(map(str, event.items()))) for epoch, event in recorder.events))
        assert recorder.plan.known
        assert len(recorder.plans) > 2
    assert seen[0] == seen[1]
