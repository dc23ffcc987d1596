"""Topology files that extend each other."""

import pytest

from streams.errors import DeclarationError
from topology.extension import MAX_FILES
from topology.toml import dump_topology, load_topology, parse_topology

WHOLE = """[topology]
name = "whole"
max_pending = 3
vocabulary = "words"

[topology.epoch]
objects = 5
queries = 6

[topology.checkpoint]
directory = "saved"

[spout.objects]
operator = "object-file"
path = ["a.jsonl", "b.jsonl"]

[bolt.echo]
operator = "mine.py:Echo"
parallelism = 2
tick = { epochs = 2 }
inputs = [{ component = "objects", stream = "objects" }, { component = "objects", stream = "words" }]

[bolt.sink]
operator = "count"
inputs = [{ component = "echo", grouping = "custom", using = "mine.py:Chooser" }]
"""


@pytest.fixture
def write(tmp_path):
    def written(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    written("whole.toml", WHOLE)
    return written


def load(path, settings=()):
    return load_topology(path, settings, check=False)


def test_extension_wins_key_by_key(write):
    """Keys of the extending file win, those beside them in the same table stay."""
    found = load(write("v.toml", 'extends = "whole.toml"\n[topology]\nname = "v"\n[topology.epoch]\nobjects = 9\n'))
    whole = load(write("whole.toml", WHOLE))
    assert (found.settings.name, found.settings.max_pending) == ("v", 3)
    assert (found.settings.epoch.objects, found.settings.epoch.queries) == (9, 6)
    assert found.components == whole.components


def test_extension_replaces_lists_whole(write):
    """The inputs of an extending file are all that there are."""
    changed = 'extends = "whole.toml"\n[bolt.echo]\ninputs = [{ component = "objects", stream = "objects" }]\n'
    echo = load(write("v.toml", changed)).component("echo")
    assert [one.stream for one in echo.inputs] == ["objects"]
    assert echo.parallelism == 2


def test_extension_does_without_what_it_names(write):
    """Bolts and single keys can be left out; a table that is left out can be written anew."""
    text = 'extends = "whole.toml"\nwithout = ["bolt.sink", "bolt.echo.parallelism", "bolt.echo.tick"]\n'
    found = load(write("v.toml", text + "[bolt.echo.tick]\nms = 5\n"))
    assert [c.name for c in found.components] == ["objects", "echo"]
    assert found.component("echo").parallelism == 1
    assert (found.component("echo").tick.ms, found.component("echo").tick.epochs) == (5, None)


def test_extensions_form_a_chain(write):
    """The first file wins over the second, the second over the third."""
    write("second.toml", 'extends = "whole.toml"\n[topology]\nname = "second"\nseed = 2\nmax_pending = 7\n')
    found = load(write("first.toml", 'extends = "second.toml"\n[topology]\nname = "first"\n')).settings
    assert (found.name, found.seed, found.max_pending, found.epoch.objects) == ("first", 2, 7, 5)


def test_overrides_come_after_extensions(write):
    """--set wins over both files, and reaches a bolt that only the extended one has."""
    path = write("v.toml", 'extends = "whole.toml"\n[topology]\nname = "v"\n')
    found = load(path, ["topology.name=set", "bolt.echo.parallelism=5"])
    assert (found.settings.name, found.component("echo").parallelism) == ("set", 5)
    with pytest.raises(DeclarationError, match="--set extends: a file says what it extends"):
        load(path, ["extends=other.toml"])


@pytest.mark.parametrize("folder", ["in", "in/."])
def test_paths_start_from_the_folder_of_their_file(write, tmp_path, folder):
    """Whatever names a file in an extended file is found from there, whatever names one in the extending file from here."""
    write("mine.py", _OPERATORS)
    write("in/second.toml", 'extends = "../whole.toml"\n[bolt.echo]\nlog = "x.log"\n')
    text = f'extends = "{folder}/second.toml"\n[bolt.echo]\nextra = {{ path = "e" }}\n'
    found = load(write("v.toml", text))
    echo = found.component("echo")
    assert (tmp_path / found.settings.vocabulary).resolve() == tmp_path / "words"
    assert (tmp_path / found.settings.checkpoint.directory).resolve() == tmp_path / "saved"
    paths = [(tmp_path / path).resolve() for path in found.component("objects").options["path"]]
    assert paths == [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    assert (tmp_path / echo.operator.removesuffix(":Echo")).resolve() == tmp_path / "mine.py"
    chooser = found.component("sink").inputs[0].using
    assert (tmp_path / chooser.removesuffix(":Chooser")).resolve() == tmp_path / "mine.py"
    assert (tmp_path / echo.options["log"]).resolve() == tmp_path / "in" / "x.log"
    assert (tmp_path / echo.options["extra"]["path"]).resolve() == tmp_path / "e"


def test_plan_of_an_extended_file_is_found_from_there(write, tmp_path):
    """A plan is a path, but 'auto' is none; a URL of checkpoints is none either."""
    write(
        "in/planned.toml",
        '[spout.s]\noperator = "some.module:Spout"\n[topology]\nplan = "plan"\n[topology.checkpoint]\ndirectory = "s3://bucket/x"\n',
    )
    found = load(write("v.toml", 'extends = "in/planned.toml"\n')).settings
    assert load(tmp_path / "v.toml").component("s").operator == "some.module:Spout"
    assert (found.plan, found.checkpoint.directory) == ("in/plan", "s3://bucket/x")
    write("in/planned.toml", '[topology]\nplan = "auto"\n')
    assert load(write("v.toml", 'extends = "in/planned.toml"\n')).settings.plan == "auto"


def test_extended_topology_round_trips(write, tmp_path):
    """Written as one file and read again, it is the same topology, and so is its identity for checkpoints."""
    topology = load(write("v.toml", 'extends = "whole.toml"\nwithout = ["topology.vocabulary"]\n'))
    text = dump_topology(topology)
    assert "extends" not in text
    assert parse_topology(text, base=tmp_path, check=False) == topology


def test_message_names_the_file_of_a_key(write, tmp_path):
    """A problem is reported with the file and line that the key comes from."""
    write("whole.toml", WHOLE.replace("objects = 5", "objects = 0"))
    text = 'extends = "whole.toml"\n[topology]\nname = "v"\n'
    with pytest.raises(DeclarationError) as caught:
        load(write("v.toml", text))
    assert str(caught.value).startswith(f"{tmp_path}/whole.toml:6: topology.epoch: objects = 0")
    with pytest.raises(DeclarationError) as caught:
        load(write("v.toml", text + "[topology.epoch]\nqueries = 1\nobject = 3\n"))
    assert str(caught.value).startswith(f"{tmp_path}/v.toml:6: topology.epoch.object: unknown key")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'extends = "gone.toml"',
            "v.toml:1: extends: {folder}/gone.toml: no such file; give the path of a topology file",
        ),
        ('extends = "in"', "v.toml:1: extends: {folder}/in: is a folder; give the path of a topology file"),
        ('\nextends = "v.toml"', "v.toml:2: extends: the files extend each other in a circle: "),
        ('extends = "back.toml"', "back.toml:1: extends: the files extend each other in a circle: {folder}/v.toml -> "),
        ("extends = 5", "v.toml:1: extends: found 5, expected the path of a topology file"),
        ('extends = ""', "v.toml:1: extends: found '', expected the path of a topology file"),
        ('without = ["bolt.sink"]', "v.toml:1: without: there is nothing to do without; it goes with 'extends'"),
        ('extends = "whole.toml"\nwithout = "sink"', "v.toml:2: without: found 'sink', expected keys, such as "),
        (
            'extends = "whole.toml"\nwithout = ["bolt.snik"]',
            "v.toml:2: without: the extended file has no 'bolt.snik' (did you mean 'bolt.sink'?)",
        ),
        ('extends = "torn.toml"', "torn.toml: not valid TOML: "),
        ('[topology]\nextends = "whole.toml"', "v.toml:2: topology.extends: 'extends' stands above the first table"),
    ],
)
def test_extension_that_cannot_be_is_refused(write, tmp_path, text, expected):
    """File, line, key and remedy for each mistake."""
    write("back.toml", 'extends = "v.toml"\n')
    write("torn.toml", "[topology\n")
    (tmp_path / "in").mkdir()
    with pytest.raises(DeclarationError) as caught:
        load(write("v.toml", text + "\n"))
    assert str(caught.value).startswith(f"{tmp_path}/{expected.format(folder=tmp_path)}")


@pytest.mark.parametrize(("name", "told"), [("mine.csv", True), ("mine.jsonl", True), ("mine.toml", False)])
def test_data_in_place_of_a_topology_is_told_where_to_go(write, name, told):
    """What TOML's parser says of a table of data helps nobody."""
    with pytest.raises(DeclarationError, match="not valid TOML") as caught:
        load(write(name, "id,ts,x,y\n"))
    assert ("that is data, to be given with --objects or --queries" in str(caught.value)) == told


def test_chain_of_extensions_has_a_limit(write):
    """So many files may extend each other, and one more may not."""
    for i in range(MAX_FILES - 1):
        write(f"{i}.toml", f'extends = "{i + 1}.toml"\n')
    write(f"{MAX_FILES - 1}.toml", WHOLE)
    assert load(write("0.toml", 'extends = "1.toml"\n')).settings.name == "whole"
    with pytest.raises(DeclarationError, match=f"extends: more than {MAX_FILES} files extend each other"):
        load(write("one_more.toml", 'extends = "0.toml"\n'))


def test_key_that_is_a_value_and_a_table_is_the_extending_files(write):
    """A table replaces a value and a value a table, whichever is above."""
    write("below.toml", '[spout.s]\noperator = "x:Y"\na = 1\nb = { c = 1 }\n')
    found = load(write("v.toml", 'extends = "below.toml"\n[spout.s]\na = { d = 2 }\nb = 2\n'))
    assert found.component("s").options == {"a": {"d": 2}, "b": 2}


def test_deep_keys_cannot_be_merged(write):
    """Keys without end are refused, not a crash."""
    deep = f"[spout.s.{'.'.join(['a'] * 5000)}]\nb = 1\n"
    write("below.toml", deep)
    with pytest.raises(DeclarationError, match="nested too deep to be merged"):
        load(write("v.toml", f'extends = "below.toml"\n{deep}'))


_OPERATORS = """
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from operators import Bolt


@dataclass
class Extra:
    path: Path = Path()


@dataclass
class Echo(Bolt):
    outputs: ClassVar = {"default": ("x",)}
    log: Path | None = None
    extra: Extra = field(default_factory=Extra)
"""
