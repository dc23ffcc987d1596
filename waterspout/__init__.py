"""Waterspout: standing questions over streams of places and words, exact answers at stream speed.

This is the one import for users:

    import waterspout

    run = waterspout.run("conf/quickstart.toml", objects=[...], queries=[...], on_result=print)

Everything is imported when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators import Bolt, Emitter, Epoch, Inputs, Spout, TaskContext, Tuple
    from service.serving import serve
    from streams.errors import DeclarationError, InputError, RunError, TaskFailedError, WaterspoutError
    from topology.builder import TopologyBuilder
    from topology.declaration import Topology
    from topology.given import validate
    from topology.testing import Trial, run_for_test
    from topology.toml import dump_topology, extended_topology, load_topology
    from waterspout.client import AsyncClient, Client
    from waterspout.runs import Run, run

__all__ = [
    "AsyncClient",
    "Bolt",
    "Client",
    "DeclarationError",
    "Emitter",
    "Epoch",
    "InputError",
    "Inputs",
    "Run",
    "RunError",
    "Spout",
    "TaskContext",
    "TaskFailedError",
    "Topology",
    "TopologyBuilder",
    "Trial",
    "Tuple",
    "WaterspoutError",
    "dump_topology",
    "extended_topology",
    "load_topology",
    "run",
    "run_for_test",
    "serve",
    "validate",
]

_MODULES = {
    "operators": ("Bolt", "Emitter", "Epoch", "Inputs", "Spout", "TaskContext", "Tuple"),
    "service.serving": ("serve",),
    "streams.errors": ("DeclarationError", "InputError", "RunError", "TaskFailedError", "WaterspoutError"),
    "topology.builder": ("TopologyBuilder",),
    "topology.declaration": ("Topology",),
    "topology.given": ("validate",),
    "topology.testing": ("Trial", "run_for_test"),
    "topology.toml": ("dump_topology", "extended_topology", "load_topology"),
    "waterspout.client": ("AsyncClient", "Client"),
    "waterspout.runs": ("Run", "run"),
}
_PACKAGES = ("streams", "partitioners", "operators", "topology", "pipeline", "reports", "service", "benchmarks")
_PLACE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("waterspout")
    if name not in _PLACE:
        raise AttributeError(f"module 'waterspout' has no attribute '{name}'")
    try:
        return getattr(import_module(_PLACE[name]), name)
    except (ImportError, AttributeError):  # of a file that hides one of ours, and uses us itself, half of us is there
        if (hidden := _hidden()) is not None:
            raise ImportError(hidden) from None
        raise


def _hidden() -> str | None:
    """Say which file has the name of one of our packages, which may be why an import has failed."""
    import sys
    from pathlib import Path

    for package in _PACKAGES:
        found = getattr(sys.modules.get(package), "__file__", None)
        if found is not None and Path(found).parent.parent != Path(__file__).parents[1]:
            return f"{found} hides Waterspout's package '{package}'; rename it, or run the script from another folder"
    return None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
