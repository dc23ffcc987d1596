"""Declare a topology in Python, in the spirit of Storm's builder."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from streams.errors import DeclarationError
from topology.conversion import from_plain, to_plain
from topology.declaration import Component, Input, Settings, Tick, Topology
from topology.disturbances import Disturbance, disturbances
from topology.references import reference_of
from topology.validation import validate

__all__ = ["BoltDeclarer", "TopologyBuilder"]


class TopologyBuilder:
    """Collects spouts and bolts; `build` checks the whole and returns it.

    >>> builder = TopologyBuilder("demo", space=[0, 0, 10, 10], epoch={"objects": 100})
    >>> builder.settings.epoch.objects
    100
    """

    def __init__(self, name: str = "topology", *, base: Path | None = None, **settings: Any) -> None:
        self.settings = from_plain(Settings, {"name": name, **settings}, ("topology",))
        self.base = base
        self._components: dict[str, Component] = {}
        self._disturbances: list[Disturbance] = []

    def spout(
        self,
        name: str,
        operator: str | type[Any],
        *,
        parallelism: int = 1,
        streams: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> "TopologyBuilder":
        """Add a spout: a shipped operator by name, or a class; the further arguments are the operator's options."""
        self._add("spout", name, operator, parallelism, streams, options, None)
        return self

    def bolt(
        self,
        name: str,
        operator: str | type[Any],
        *,
        parallelism: int = 1,
        tick: Mapping[str, int] | None = None,
        streams: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> "BoltDeclarer":
        """Add a bolt; the declarer that is returned takes its inputs, one grouping after the other."""
        self._add("bolt", name, operator, parallelism, streams, options, tick)
        return BoltDeclarer(self, name)

    def _add(
        self,
        kind: Literal["spout", "bolt"],
        name: str,
        operator: str | type[Any],
        parallelism: int,
        streams: Mapping[str, Sequence[str]] | None,
        options: Mapping[str, Any],
        tick: Mapping[str, int] | None,
    ) -> None:
        if name in self._components:
            raise DeclarationError(f"there are two components named '{name}'; names are unique", (kind, name))
        given = isinstance(operator, type)
        if not given and not isinstance(operator, str):
            raise DeclarationError(
                f"found a {type(operator).__name__}, expected a class that derives from waterspout.{kind.title()}, or the name "
                "of a shipped operator",
                (kind, name, "operator"),
            )
        reference = reference_of(operator) if isinstance(operator, type) else operator
        self._components[name] = Component(
            name=name,
            kind=kind,
            operator=reference,
            parallelism=parallelism,
            tick=from_plain(Tick, tick, (kind, name, "tick")) if tick is not None else None,
            streams={stream: tuple(fields) for stream, fields in streams.items()} if streams is not None else None,
            options=to_plain(options),
            classes={reference: operator} if given else {},  # type: ignore[dict-item]
        )

    def _add_input(self, name: str, item: Input, chooser: type[Any] | None) -> None:
        component = self._components[name]
        classes = {**component.classes, **({item.using: chooser} if item.using and chooser else {})}
        self._components[name] = dataclasses.replace(component, inputs=(*component.inputs, item), classes=classes)

    def inject(self, kind: str, **options: Any) -> "TopologyBuilder":
        """Put a hotspot into the input (`streams.injection.Injection`) or a fault into the run (`topology.faults.Fault`)."""
        injections, faults = disturbances([{"kind": kind, **options}])
        self._disturbances += [*injections, *faults]
        return self

    def build(self, *, check: bool = True) -> Topology:
        """Return the topology, checked as a whole; without `check` for a caller who is about to change it."""
        injections, faults = disturbances(self._disturbances)
        topology = Topology(self.settings, tuple(self._components.values()), injections, faults, self.base)
        if check:
            validate(topology)
        return topology


class BoltDeclarer:
    """Takes the inputs of one bolt. Each method adds one and returns the declarer."""

    def __init__(self, builder: TopologyBuilder, name: str) -> None:
        self._builder = builder
        self._name = name

    def _input(
        self, grouping: str, component: str, stream: str, feedback: bool, fields: str | Sequence[str] = ()
    ) -> "BoltDeclarer":
        item = Input(component, stream, grouping, (fields,) if isinstance(fields, str) else tuple(fields), feedback)
        self._builder._add_input(self._name, item, None)
        return self

    def shuffle(self, component: str, stream: str = "default", *, feedback: bool = False) -> "BoltDeclarer":
        """Give every task an equal part."""
        return self._input("shuffle", component, stream, feedback)

    def fields(
        self, component: str, fields: str | Sequence[str], stream: str = "default", *, feedback: bool = False
    ) -> "BoltDeclarer":
        """Send tuples with equal values of the fields, or of the one field, to the same task."""
        return self._input("fields", component, stream, feedback, fields)

    def partial_key(
        self, component: str, fields: str | Sequence[str], stream: str = "default", *, feedback: bool = False
    ) -> "BoltDeclarer":
        """As `fields`, with two tasks for each value, the less loaded of the two next."""
        return self._input("partial-key", component, stream, feedback, fields)

    def all(self, component: str, stream: str = "default", *, feedback: bool = False) -> "BoltDeclarer":
        """Send every tuple to every task."""
        return self._input("all", component, stream, feedback)

    def global_(self, component: str, stream: str = "default", *, feedback: bool = False) -> "BoltDeclarer":
        """Send every tuple to the first task."""
        return self._input("global", component, stream, feedback)

    def direct(self, component: str, stream: str = "default", *, feedback: bool = False) -> "BoltDeclarer":
        """Let the emitter name the task."""
        return self._input("direct", component, stream, feedback)

    def local_or_shuffle(self, component: str, stream: str = "default", *, feedback: bool = False) -> "BoltDeclarer":
        """As `shuffle`, among tasks on the sender's node where there are any."""
        return self._input("local-or-shuffle", component, stream, feedback)

    def none(self, component: str, stream: str = "default", *, feedback: bool = False) -> "BoltDeclarer":
        """Say that it does not matter (as in Storm, that is `shuffle`)."""
        return self._input("none", component, stream, feedback)

    def custom(
        self, component: str, using: str | type[Any], stream: str = "default", *, feedback: bool = False
    ) -> "BoltDeclarer":
        """Ask a class of your own with `prepare(context)` and `choose(batch)`."""
        reference = reference_of(using) if isinstance(using, type) else using
        item = Input(component, stream, "custom", (), feedback, reference)
        self._builder._add_input(self._name, item, using if isinstance(using, type) else None)
        return self
