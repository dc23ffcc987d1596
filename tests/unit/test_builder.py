"""The builder and TOML say the same thing."""

import pytest
from operators_for_tests import ByParity, Counts, Director, Halver, Numbers, Tagged

from streams.errors import DeclarationError
from topology import TopologyBuilder, dump_topology
from topology.toml import parse_topology


def everything():
    """A topology that uses every grouping, a tick, feedback, streams and settings."""
    builder = TopologyBuilder(
        "everything", seed=7, max_pending=3, space=[0, 0, 2, 2], epoch={"objects": 10, "ms": 500}, window={"objects": 9}
    )
    builder.spout("numbers", Numbers, parallelism=2, count=40)
    builder.spout("renamed", Numbers, streams={"default": ["a", "b"]})
    tagged = builder.bolt("tagged", Tagged, parallelism=3)
    tagged.shuffle("numbers").fields("numbers", ["word"]).partial_key("numbers", ["number", "word"]).all("numbers")
    tagged.global_("numbers").local_or_shuffle("numbers").none("numbers").custom("numbers", ByParity)
    builder.bolt("director", Director).shuffle("numbers")
    builder.bolt("directed", Tagged, parallelism=2).direct("director")
    builder.bolt("halver", Halver).shuffle("numbers").shuffle("halver", "again", feedback=True)
    builder.bolt("counts", Counts, tick={"epochs": 2}).fields("tagged", ["word"])
    builder.bolt("sink", "collect").global_("counts")
    builder.inject("condense", at=[0.5, 0.5], strength=0.4, start="2001-01-01T00:00:00Z", duration=1000)
    builder.inject("objects", region=[0, 0, 1, 1], strength=2.5, seed=3)
    return builder.build()


def test_topology_round_trips_through_toml():
    """Writing a topology as TOML and reading that gives an equal topology."""
    topology = everything()
    assert parse_topology(dump_topology(topology)) == topology


def test_toml_that_says_the_same_gives_the_same_topology():
    """A declaration written by hand equals what the builder makes."""
    text = """
    [topology]
    name = "small"
    [topology.epoch]
    objects = 5
    [spout.numbers]
    operator = "operators_for_tests:Numbers"
    parallelism = 2
    count = 40
    [bolt.counts]
    operator = "operators_for_tests:Counts"
    tick = { epochs = 2 }
    inputs = [{ component = "numbers", grouping = "fields", fields = ["word"] }]
    """
    builder = TopologyBuilder("small", epoch={"objects": 5})
    builder.spout("numbers", Numbers, parallelism=2, count=40)
    builder.bolt("counts", Counts, tick={"epochs": 2}).fields("numbers", ["word"])
    assert parse_topology(text) == builder.build()


def test_two_components_of_one_name_are_an_error():
    """Names are unique over spouts and bolts."""
    builder = TopologyBuilder("twice").spout("a", Numbers)
    with pytest.raises(DeclarationError, match="two components named 'a'"):
        builder.bolt("a", Tagged)


def test_one_field_may_be_given_as_it_is():
    """A string is one field, not its letters."""
    builder = TopologyBuilder("one").spout("numbers", Numbers)
    tagged = builder.bolt("tagged", Tagged, parallelism=2).fields("numbers", "word").partial_key("numbers", "number")
    assert tagged is not None
    assert [one.fields for one in builder.build().component("tagged").inputs] == [("word",), ("number",)]


def test_operator_that_is_no_class_is_refused():
    """A function is neither a class nor a name."""
    with pytest.raises(
        DeclarationError, match=r"found a function, expected a class that derives from waterspout\.Spout"
    ):
        TopologyBuilder("function").spout("numbers", lambda: 1)


def test_unknown_setting_names_the_nearest_one():
    """A mistyped setting is refused where it is given."""
    with pytest.raises(DeclarationError, match=r"max_pendin.*did you mean 'max_pending'"):
        TopologyBuilder("typo", max_pendin=3)
