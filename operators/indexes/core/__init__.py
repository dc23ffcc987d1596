"""What all indexes are made of: rows of queries, words, lifetimes, counted work."""
