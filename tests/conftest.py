"""Makes the plain references next to this file importable from every test."""
