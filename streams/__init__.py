"""What flows: objects, queries and results as columns, the words and the places in them, files, wire, and the oracle.

The lowest package: it knows nothing of tasks, plans or runtimes.
"""
