"""The offline plane on Spark."""
