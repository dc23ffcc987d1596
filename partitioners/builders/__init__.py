"""How plans are made: the decompositions and assignments of the five papers, by name."""
