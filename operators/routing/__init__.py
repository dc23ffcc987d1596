"""Who must see what: routers that send objects and queries to the evaluators that a plan names."""
