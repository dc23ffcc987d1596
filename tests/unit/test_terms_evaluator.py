"""What a terms-evaluator refuses before anything runs, and when it knows that an answer is whole."""

import random

import numpy as np
import pytest
from range_model import PlainQuery, query_batch
from terms_inputs import terms_topology, write_terms_inputs

from operators.evaluation.completeness import NEVER_ALL, Completeness
from operators.evaluation.terms_core import TermsCore
from operators.evaluation.terms_evaluator import TermsEvaluator
from operators.indexes.terms.registry import make_terms_index
from streams.batches import TYPE_TERMS, RankedBatch
from streams.errors import DeclarationError, WaterspoutError
from streams.geometry import REGION_NONE, Rect
from topology.testing import run_for_test


@pytest.mark.parametrize(
    ("options", "message"),
    [({"index": "group"}, "did you mean 'groups'"), ({"keep_ms": -1}, "keep_ms = -1, expected milliseconds")],
)
def test_options_are_checked(options, message):
    """What cannot be is named before a run starts."""
    with pytest.raises(DeclarationError, match=message):
        TermsEvaluator(**options)


@pytest.mark.parametrize("kind", ["location", "prefix"])
def test_plans_that_send_objects_to_some_are_refused(tmp_path, kind):
    """Where several evaluators see an object, but not all of them, it would be counted twice or not at all."""
    inputs = write_terms_inputs(tmp_path, random.Random(1))
    with pytest.raises(WaterspoutError, match="an object is to be counted once"):
        run_for_test(terms_topology(*inputs, partitioner=kind))


def test_windows_longer_than_what_is_kept_are_rejected(tmp_path):
    """A query that reaches further back than objects are kept is rejected; the others are answered."""
    inputs = write_terms_inputs(tmp_path, random.Random(2))
    trial = run_for_test(terms_topology(*inputs, keep_ms=6))
    trial.assert_exact()
    assert trial.summary["rejected"]
    assert trial.summary["results"]


def counting(number=7):
    """Return a core, and a query that counts everything."""
    query = PlainQuery(number, REGION_NONE, (0.0, 0.0, 0.0, 0.0), type=TYPE_TERMS, k=1, window=5, slide=1)
    return TermsCore(make_terms_index("brute", Rect(0, 0, 1, 1)), None), query_batch([query])


def test_queries_that_come_after_a_change_of_routes_have_older_objects_elsewhere():
    """Also after a run goes on with another number of evaluators, and is restored once more."""
    core, old = counting()
    core.insert(old)
    Completeness(core, 0, "euclidean", None).register(old)
    assert core.completeness(old.number) < -(2**60)
    divided, _ = counting()
    divided.restore(TermsCore.divided(core.snapshot(), old, RankedBatch.empty()))
    Completeness(divided, 0, "euclidean", None).look_again(30)
    again, new = counting(8)
    again.restore(divided.snapshot())
    again.insert(new)
    Completeness(again, 0, "euclidean", None).register(new)
    assert again.completeness(np.array([7, 8])).tolist() == [30, 30]


def test_answers_are_whole_when_the_window_began_after_all_objects_came_here():
    """Until then every term is listed, because other evaluators may have older objects."""
    core, query = counting()
    core.insert(query)
    asked = []
    index_answer = core._index.answer
    core._index.answer = lambda *given: asked.append(given[2].tolist()) or index_answer(*given)
    number = np.array([7])
    for since, instants in ((NEVER_ALL, [3]), (10, [14, 15, 16])):
        core.complete(number, np.array([since]))
        core.answer(np.repeat(number, len(instants)), np.array(instants))
    assert asked == [[False], [False, True, True]]
