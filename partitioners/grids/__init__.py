"""The fine grid and what lies on it: tilings, neighbours, and the structures that route points and ranges."""
