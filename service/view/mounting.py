"""The live view of a service: its page at /, fed by the engine."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from starlette.routing import BaseRoute

from service.service import Service
from service.view.engine_watcher import FRAME
from service.view.observer import start_frame
from service.view.routes import ViewHub

__all__ = ["hub_of", "mount"]

_hubs: WeakKeyDictionary[Any, ViewHub] = WeakKeyDictionary()


def hub_of(service: Service) -> ViewHub:
    """Return the view of a service; it has one."""
    if service not in _hubs:
        status = service.engine.status

        def state() -> tuple[str, str | None] | None:
            """Return what the engine has come to, where its frames do not say."""
            if status.state == "failed":
                return "failed", status.error
            return ("ended", None) if status.state == "ended" else None

        _hubs[service] = hub = ViewHub(state=state)
        hub.take(start_frame(service.live))  # so that there is a map before anything runs
        service.engine.handlers[FRAME] = hub.take
    return _hubs[service]


def mount(service: Service) -> Sequence[BaseRoute]:
    """Return the routes that a service adds to its application."""
    return hub_of(service).routes()
