"""Chosen columns of objects beside the results of a topology that reads them from files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from streams.errors import DeclarationError
from streams.files.object_lookup import Columns, check_columns, columns_of
from topology.amendments import source_of
from topology.declaration import Topology
from topology.validation import make_operator

__all__ = ["lookup_in"]


def lookup_in(topology: Topology, names: Sequence[str]) -> Callable[[set[str]], Mapping[str, Columns]]:
    """Return a function from identifiers to the columns of these names; raise where there are none to look up."""
    spout = make_operator(source_of(topology, "leads"), topology)
    if spout.dynamic:
        raise DeclarationError("include: dynamic objects have many states under one id, so there is no row to include")
    if spout.follow:
        raise DeclarationError(
            "include: a followed file is read again at its end, which it does not have; set follow = false"
        )
    form = replace(spout.form, text=replace(spout.form.text, follow=False))
    paths = spout.files()
    check_columns(paths, form, names)
    return lambda wanted: columns_of(paths, form, wanted, names)
