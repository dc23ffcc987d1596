"""What work costs: statistics, the cost models of the papers, and allocation of costs to workers."""
