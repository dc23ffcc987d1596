"""What a terms-evaluator refuses before anything runs, and when it knows that an answer is whole."""

import random

import numpy as np
import pytest
from range_model import PlainQuery, query_batch
from terms_inputs import terms_topology, write_terms_inputs

from operators.evaluation.terms_core import NEVER_ALL, TermsCore
from operators.evaluation.terms_evaluator import TermsEvaluator
from operators.indexes.terms.registry import make_terms_index
from streams.batches import TYPE_TERMS
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


def test_answers_are_whole_when_the_window_began_after_all_objects_came_here():
    """Until then every term is listed, because other evaluators may have older objects."""
    core = TermsCore(make_terms_index("brute", Rect(0, 0, 1, 1)), None)
    shape = (0.0, 0.0, 0.0, 0.0)
    core.insert(query_batch([PlainQuery(7, REGION_NONE, shape, type=TYPE_TERMS, k=1, window=5, slide=1)]))
    asked = []
    index_answer = core._index.answer
    core._index.answer = lambda *given: asked.append(given[2].tolist()) or index_answer(*given)
    number = np.array([7])
    for since, instants in ((NEVER_ALL, [3]), (10, [14, 15, 16])):
        core.complete(number, np.array([since]))
        core.answer(np.repeat(number, len(instants)), np.array(instants))
    assert asked == [[False], [False, True, True]]
