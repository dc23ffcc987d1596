"""Files: readers of objects and queries, prepared data sets, writers of results and rejects."""
