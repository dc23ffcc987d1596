"""Which types of query a router is for, where several routers share one stream of queries."""

import numpy as np

from streams.batches import OP_REGISTER, QUERY_TYPES, QueryBatch
from streams.errors import DeclarationError, did_you_mean

__all__ = ["check_types", "of_types"]


def check_types(types: tuple[str, ...]) -> None:
    """Raise where a type is none."""
    for name in types:
        if name not in QUERY_TYPES:
            raise DeclarationError(
                f"types has '{name}'{did_you_mean(name, QUERY_TYPES)}, expected some of: {', '.join(QUERY_TYPES)}",
                ("types",),
            )


def of_types(queries: QueryBatch, types: tuple[str, ...]) -> QueryBatch:
    """Return the registrations of these types, and all that ends a query: it does not say which type that is of."""
    if not types:
        return queries
    wanted = np.isin(queries.type, [QUERY_TYPES.index(name) for name in types]) | (queries.op != OP_REGISTER)
    return queries if wanted.all() else queries.take(np.flatnonzero(wanted))
