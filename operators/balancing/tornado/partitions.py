"""Partitions and their workers: the plans that Tornado can rebalance have at most one partition for each evaluator."""

from collections.abc import Mapping
from dataclasses import dataclass

from operators.balancing.tornado.aggregates import Box
from partitioners.plans.grid_plan import GridPlan
from streams.errors import DeclarationError, InputError

__all__ = ["Partitions"]


@dataclass(frozen=True, slots=True)
class Partitions:
    """A plan seen by worker.

    Attributes:
        numbers: the partition of each worker that has one.
        boxes: the box of each worker that has one.
        idle: the workers without a partition, ascending: the pool from which a split takes its auxiliary evaluator.
    """

    numbers: Mapping[int, int]
    boxes: Mapping[int, Box]
    idle: tuple[int, ...]

    @classmethod
    def of(cls, plan: GridPlan) -> "Partitions":
        """Look at a plan; raise unless it has one worker for each box and at most one box for each worker."""
        if plan.anchored or not plan.meets_once:
            why = "keeps queries at their place and sends objects everywhere" if plan.anchored else "divides keywords"
            raise DeclarationError(
                f"a grid plan that {why} cannot be rebalanced by moving borders; build it with the partitioner 'kd' or "
                "'uniform', or set the policy to 'none'"
            )
        workers = plan.part_worker.tolist()
        numbers = {worker: number for number, worker in enumerate(workers)}
        if len(numbers) < len(workers):
            double = next(worker for number, worker in enumerate(workers) if numbers[worker] != number)
            raise DeclarationError(
                f"worker {double} has {workers.count(double)} partitions; rebalancing by moving borders needs at most one "
                "for each worker: build the plan with the partitioner 'kd' or 'uniform'"
            )
        boxes = {worker: cls.box_of(plan, number) for worker, number in numbers.items()}
        return cls(numbers, boxes, tuple(worker for worker in range(plan.workers) if worker not in numbers))

    @staticmethod
    def box_of(plan: GridPlan, partition: int) -> Box:
        """Return the box of a partition."""
        x0, y0, x1, y1 = plan.boxes[partition].tolist()
        return x0, y0, x1, y1

    def number(self, worker: int) -> int:
        """Return the partition of a worker; raise if it has none."""
        if worker not in self.numbers:
            raise InputError(f"worker {worker} has no partition; those that have: {sorted(self.numbers)}")
        return self.numbers[worker]

    def box(self, worker: int) -> Box:
        """Return the box of a worker; raise if it has none."""
        self.number(worker)
        return self.boxes[worker]
