"""Makes the plain references next to this file importable from every test, and Hypothesis repeatable."""

from hypothesis import settings

# No deadlines: the first call of a kernel compiles it, and time is not what tests are about.
settings.register_profile("waterspout", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("waterspout")
