"""The one instruction that kernels need and numpy has no word for, where indexes look for it."""

from streams.prefetch import prefetch

__all__ = ["prefetch"]
