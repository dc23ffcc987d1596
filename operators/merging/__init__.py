"""Partial answers put together by query: lists of several evaluators become one, and a line when it has changed."""
