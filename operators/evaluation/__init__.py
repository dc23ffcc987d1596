"""What evaluators do: one shell for orders, moves, time and state, and a core that answers one kind of query."""
