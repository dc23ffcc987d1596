"""A topology that lives: objects and queries arrive over the network, and results are pushed to whoever waits for them.

Two processes share the work and a folder. This one, the service, takes requests (`app`), judges what arrives and gives it its
place in time (`intake`), writes it to a journal before it says so (`journal_writer`), and pushes results from a log to
subscribers (`hub`, `subscriptions`). The other one, the engine (`engine`), runs the topology: its spout follows the journal,
its sink appends to the log. They send each other short messages (`channel`); whatever must last is in the folder
(`state_folder`), so either may be killed at any moment, and is started again where it was.
"""

__all__: list[str] = []
