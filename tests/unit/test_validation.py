"""What cannot run is refused before anything starts, with file, line, key and a way out."""

import re

import pytest

from streams.errors import DeclarationError, InputError
from topology.toml import line_of, load_topology, parse_topology

GOOD = """\
[topology]
name = "t"

[spout.numbers]
operator = "operators_for_tests:Numbers"
count = 10

[bolt.tagged]
operator = "operators_for_tests:Tagged"
parallelism = 2
inputs = [{ component = "numbers", grouping = "shuffle" }]

[bolt.sink]
operator = "collect"
inputs = [{ component = "tagged", grouping = "global" }]
"""


def broken(old, new):
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_good_declaration_passes():
    """The declaration that the cases below break is itself valid."""
    assert len(parse_topology(GOOD).components) == 3


CASES = {
    "unknown operator": ('"collect"', '"colect"', 14, "unknown operator 'colect' \\(did you mean 'collect'\\?\\)"),
    "unknown grouping": ('"shuffle"', '"shufle"', 11, "unknown grouping 'shufle' \\(did you mean 'shuffle'\\?\\)"),
    "unknown option": ("count = 10", "cuont = 10", 6, "unknown key 'cuont' \\(did you mean 'count'\\?\\)"),
    "wrong type of option": ("count = 10", 'count = "ten"', 6, "found 'ten', expected an integer"),
    "unknown setting": (
        'name = "t"',
        "max_pendng = 4",
        2,
        "unknown key 'max_pendng' \\(did you mean 'max_pending'\\?\\)",
    ),
    "wrong setting": ('name = "t"', "max_pending = 0", 1, "max_pending = 0, expected at least 1"),
    "wrong space": ('name = "t"', "space = [0, 0, 0, 1]", 2, "is empty"),
    "wrong runtime": ('name = "t"', 'runtime = "rey"', 2, "expected one of 'local', 'ray'.*did you mean 'ray'"),
    "wrong epoch": ('name = "t"', "epoch = { objects = 0 }", 2, "objects = 0, expected at least 1"),
    "unknown table": ("[bolt.sink]", "[bold.sink]", 13, "unknown table 'bold' \\(did you mean 'bolt'\\?\\)"),
    "unknown component": ('component = "tagged"', 'component = "taged"', 15, "'taged', which does not exist.*'tagged'"),
    "unknown stream": (
        'component = "tagged"',
        'component = "tagged", stream = "results"',
        15,
        "reads stream 'results' of 'tagged', which nobody emits; 'tagged' emits: default",
    ),
    "parallelism 0": ("parallelism = 2", "parallelism = 0", 10, "parallelism = 0, expected an integer from 1"),
    "parallelism text": ("parallelism = 2", 'parallelism = "2"', 10, "parallelism = '2', expected an integer"),
    "no inputs": ('inputs = [{ component = "tagged", grouping = "global" }]', "", 13, "has no inputs"),
    "unknown field": (
        'grouping = "shuffle"',
        'grouping = "fields", fields = ["cell"]',
        11,
        "groups by 'cell', but stream 'default' has number, word; add 'cell'",
    ),
    "fields without fields": ('grouping = "shuffle"', 'grouping = "fields"', 11, "needs 'fields'"),
    "fields with shuffle": ('grouping = "shuffle"', 'grouping = "shuffle", fields = ["word"]', 11, "takes no 'fields'"),
    "custom without class": ('grouping = "shuffle"', 'grouping = "custom"', 11, "give both or neither"),
    "custom without methods": (
        'grouping = "shuffle"',
        'grouping = "custom", using = "operators_for_tests:NotAnOperator"',
        11,
        "lacks the method prepare and choose",
    ),
    "cycle": (
        'inputs = [{ component = "numbers", grouping = "shuffle" }]',
        'inputs = [{ component = "numbers" }, { component = "tagged" }]',
        11,
        "tagged <- tagged form a cycle; mark one of these inputs with 'feedback = true'",
    ),
    "spout as bolt": ('"operators_for_tests:Tagged"', '"operators_for_tests:Numbers"', 9, "is no bolt"),
    "not an operator": ('"operators_for_tests:Tagged"', '"operators_for_tests:NotAnOperator"', 9, "is no bolt"),
    "missing class": ('"operators_for_tests:Tagged"', '"operators_for_tests:Nope"', 9, "cannot load"),
    "missing operator": ('operator = "collect"\n', "", 13, "needs an 'operator'"),
    "tick without time": ("parallelism = 2", "tick = { ms = 5 }", 10, "no spout here has event time"),
    "tick both": ("parallelism = 2", "tick = { ms = 5, epochs = 1 }", 10, "either 'epochs' or 'ms'"),
    "options of an operator without any": (
        'operator = "collect"',
        'operator = "collect"\npath = "x"',
        15,
        "takes no options",
    ),
    "unknown injection": ("[bolt.sink]", '[[inject]]\nkind = "condens"\n[bolt.sink]', 14, "did you mean 'condense'"),
    "injection without place": ("[bolt.sink]", '[[inject]]\nkind = "condense"\n[bolt.sink]', 13, "needs 'at'"),
    "injection too strong": (
        "[bolt.sink]",
        '[[inject]]\nkind = "rate"\nstrength = 1e6\n[bolt.sink]',
        13,
        "expected a number from",
    ),
    "injection at no time": ("[bolt.sink]", '[[inject]]\nkind = "rate"\nstart = "soon"\n[bolt.sink]', 13, "ISO 8601"),
    "not TOML": ("[bolt.sink]", "[bolt.sink", None, "not valid TOML.*line 13"),
    "string without quotes": (
        '"global"',
        "global",
        None,
        r"Invalid value \(at line 15, column 46\): 'global \}\]'; strings need quotes",
    ),
    "misspelt bolt": (
        "[bolt.sink]",
        '[bolt.taged]\nindex = "kag"\n[bolt.sink]',
        13,
        r"bolt 'taged' \(did you mean 'tagged'\?\) needs an 'operator'",
    ),
    "spout that emits nothing": (
        '"operators_for_tests:Numbers"\ncount = 10',
        '"operators_for_tests:Silent"',
        10,
        r"'numbers' emits: nothing; a class says what it emits: outputs = \{",
    ),
    "spout without its method": (
        '"operators_for_tests:Numbers"\ncount = 10',
        '"operators_for_tests:Speechless"',
        5,
        r"Speechless has no method 'next_epoch\(epoch, inputs, emit\)'",
    ),
    "operator that needs arguments": (
        '"operators_for_tests:Tagged"',
        '"operators_for_tests:Argued"',
        9,
        r"cannot be made without arguments \(.*'letters'\); make it a dataclass",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_declaration_names_line_and_remedy(case):
    """Each mistake is reported with the file, the line it stands on, and what to do."""
    old, new, line, message = CASES[case]
    with pytest.raises(DeclarationError) as caught:
        parse_topology(broken(old, new), source="t.toml")
    text = str(caught.value)
    assert re.search(message, text), text
    assert text.startswith(f"t.toml:{line}: " if line else "t.toml: "), text


def test_no_spout_is_an_error():
    """A topology without a source cannot do anything."""
    with pytest.raises(DeclarationError, match="there is no spout"):
        parse_topology('[topology]\nname = "t"')


def test_all_mistakes_are_reported_at_once():
    """A user sees every mistake of a file in one go."""
    text = broken("parallelism = 2", "parallelism = 0").replace('"global"', '"globl"')
    with pytest.raises(DeclarationError) as caught:
        parse_topology(text)
    assert "parallelism = 0" in str(caught.value)
    assert "unknown grouping 'globl'" in str(caught.value)


def test_missing_and_unreadable_files_are_input_errors(tmp_path):
    """A file that is not there, or is not text, is reported by its path."""
    with pytest.raises(InputError, match=r"nowhere\.toml: no such file"):
        load_topology(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.toml: cannot be read"):
        load_topology(tmp_path / "binary.toml")


def test_missing_data_file_is_reported_before_the_run(tmp_path):
    """A spout whose file does not exist makes the topology invalid."""
    text = GOOD.replace(
        'operator = "operators_for_tests:Numbers"\ncount = 10', 'operator = "object-file"\npath = "no.csv"'
    )
    text = text.replace('component = "numbers",', 'component = "numbers", stream = "objects",')
    with pytest.raises(DeclarationError, match=r"spout\.numbers\.path: .*no\.csv: no such file"):
        parse_topology(text, base=tmp_path)


def test_two_leading_spouts_are_an_error(tmp_path):
    """Queries follow one timeline of objects."""
    (tmp_path / "o.csv").write_text("id,ts,x,y\n")
    (tmp_path / "q.jsonl").write_text("")
    text = "".join(f'[spout.{n}]\noperator = "object-file"\npath = "o.csv"\n' for n in ("a", "b"))
    text += '[spout.q]\noperator = "query-file"\npath = "q.jsonl"\n'
    text += '[bolt.s]\noperator = "count"\ninputs = [{component="a",stream="objects"}]'
    with pytest.raises(DeclarationError, match="a and b both set the time that 'q' follows"):
        parse_topology(text, base=tmp_path)


def test_overrides_reach_any_key():
    """--set replaces keys, with TOML values or plain strings."""
    topology = parse_topology(GOOD, ["bolt.tagged.parallelism=5", "topology.epoch.objects=7", "topology.name=other"])
    assert topology.component("tagged").parallelism == 5
    assert topology.settings.epoch.objects == 7
    assert topology.settings.name == "other"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("bolt.taged.parallelism=5", "there is no bolt 'taged' \\(did you mean 'tagged'\\?\\)"),
        ("nonsense", "expected key=value"),
        ("topology.name.x=1", "'topology.name' is a value, not a table"),
        ("bolt.tagged.paralelism=5", "unknown key 'paralelism' \\(did you mean 'parallelism'\\?\\)"),
    ],
)
def test_bad_overrides_are_refused(setting, message):
    """A mistyped override is an error, not a new key."""
    with pytest.raises(DeclarationError, match=message):
        parse_topology(GOOD, [setting])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("spout.numbers.count=ten", r"^t\.toml, in a setting: spout\.numbers\.count: found 'ten'"),
        ("topology.runtime=rya", r"^t\.toml, in a setting: topology\.runtime: found 'rya'"),
        ("bolt.tagged.parallelism=0", r"^t\.toml, in a setting: bolt\.tagged\.parallelism: "),
        ("topology.seed=1", None),
    ],
)
def test_what_a_setting_makes_wrong_is_not_said_of_a_line(setting, message):
    """A value that --set gives is no value of the file, which other mistakes are still found in."""
    if message is None:
        with pytest.raises(DeclarationError, match=r"^t\.toml:14: "):
            parse_topology(broken('"collect"', '"colect"'), [setting], source="t.toml")
        return
    with pytest.raises(DeclarationError, match=message):
        parse_topology(GOOD, [setting], source="t.toml")


def test_line_of_finds_keys_in_every_notation():
    """Dotted keys, quoted keys, sub-tables and inline tables are all found."""
    text = '[topology]\nepoch.objects = 3\n[bolt."a b"]\n\n"operator" = "x"\n[topology.limits]\nframe_bytes = 1\n'
    assert line_of(text, ("topology", "epoch", "objects")) == 2
    assert line_of(text, ("bolt", "a b", "operator")) == 5
    assert line_of(text, ("bolt", "a b", "missing")) == 3
    assert line_of(text, ("topology", "limits", "frame_bytes")) == 7
    assert line_of(text, ("nowhere",)) is None
