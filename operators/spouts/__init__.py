"""Where a stream begins: files of objects and of query operations, read ahead and cut into epochs, injections applied."""
