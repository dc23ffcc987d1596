"""How far the stream has come for bolts that see all objects, when their number changes."""

import numpy as np

from operators.operator import Epoch
from operators.refilling.complete_input import CompleteInput, united_input
from streams.batches import ObjectBatch


def test_what_is_divided_anew_knows_the_query_operations_of_all():
    """Else a list could have an earlier time than the registration of its query."""
    tasks = [CompleteInput() for _ in range(3)]
    for task, (times, watermark) in zip(tasks, [([1], 9), ([7, 9], 9), ([], 9)], strict=True):
        task.advance(Epoch(0, watermark), ObjectBatch.empty())
        task.note(np.array(times, np.int64), Epoch(0, watermark))
    assert [task.last for task in tasks] == [1, 7, None]
    again = CompleteInput()
    again.restore(united_input([task.snapshot() for task in tasks]))
    assert again.last == 7
    again.note(np.empty(0, np.int64), Epoch(1, 10))
    assert again.last == 9
