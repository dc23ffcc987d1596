"""Who gets what: plans, the algorithms that build them, and the cost models behind."""
