"""The distributed runtime: Ray owns the actors (placement, start, control calls), data goes over their own sockets."""

from topology.ray_runtime.driver import RayRuntime

__all__ = ["RayRuntime"]
