"""Keeping the load even: the balancer leads a change of plan, a policy decides upon it."""
