"""What tasks do: spouts, routers, evaluators and sinks, written against two small base classes.

An operator is a plain class. Its options are the fields of a dataclass, its output streams a class attribute, its state
whatever it keeps between epochs and hands over in `snapshot`. It knows nothing of runtimes, clocks or processes.
"""

from operators.operator import Bolt, Emitter, Epoch, Inputs, Spout, TaskContext, Tuple

__all__ = ["Bolt", "Emitter", "Epoch", "Inputs", "Spout", "TaskContext", "Tuple"]
