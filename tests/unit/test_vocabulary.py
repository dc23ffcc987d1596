"""Words as integers: ranks, hashes, statistics, and what an encoder remembers."""

import math

import numpy as np
import pyarrow as pa
import pytest

from streams.errors import InputError, RunError
from streams.vocabulary import UNSEEN_BASE, Encoder, Vocabulary, unseen_id


def test_vocabulary_ranks_by_frequency_then_alphabet():
    """The most frequent word has id 0, and ties are in alphabetical order."""
    vocabulary = Vocabulary.of({"b": 2, "a": 2, "z": 9, "c": 1}, 10)
    assert vocabulary.words == ("z", "a", "b", "c")
    assert vocabulary.df.tolist() == [9, 2, 2, 1]
    assert len(vocabulary) == 4


def test_vocabulary_idf_is_the_formula():
    """Idf is ln(1 + N / (1 + df)), with df 0 for a word that is not there, and 1 without statistics."""
    vocabulary = Vocabulary.of({"a": 3, "b": 1}, 10)
    expected = [math.log(1 + 10 / 4), math.log(1 + 10 / 2), math.log(1 + 10)]
    assert vocabulary.idf(np.array([0, 1, unseen_id("x")])) == pytest.approx(expected, rel=1e-15)
    assert Vocabulary().idf(np.array([unseen_id("x")])).tolist() == [1.0]
    assert Vocabulary((), np.empty(0, np.int64), 5).idf(np.array([unseen_id("x")])).tolist() == [math.log(6)]


def test_vocabulary_needs_a_frequency_a_word():
    """Words and frequencies of different number are refused."""
    with pytest.raises(InputError, match="2 words but 1 document frequencies"):
        Vocabulary(("a", "b"), np.array([1]), 3)


def test_unseen_ids_never_change():
    """The id of a word without a rank is fixed for all time: it is on disks and on wires."""
    assert unseen_id("sushi") == 7288959213963742536
    assert UNSEEN_BASE <= unseen_id("") < 2 * UNSEEN_BASE


def test_encoder_knows_ranks_and_hashes():
    """Words of the vocabulary get their ranks, others their hashes, in texts, lists and single words."""
    encoder = Encoder(Vocabulary.of({"ramen": 5, "sushi": 7}, 9))
    assert encoder.words(["Ramen", "SUSHI", "Udon", "Ramen"]).tolist() == [1, 0, unseen_id("udon"), 1]
    off, kw = encoder.texts(["Udon, ramen & the sushi", "", "ramen ramen"])
    assert off.tolist() == [0, 3, 3, 4]
    assert kw.tolist() == [0, 1, unseen_id("udon"), 1]
    off, kw = encoder.lists(pa.array([["SUSHI", "the"], None, []]))
    assert (off.tolist(), kw.tolist()) == ([0, 2, 2, 2], [0, unseen_id("the")])


def test_encoder_takes_slices_and_nulls():
    """A slice of a column is encoded as that slice, and a null text as an empty one."""
    column = pa.array(["aa bb", None, "cc", "dd é"])
    off, kw = Encoder().texts(column.slice(1, 3))
    assert off.tolist() == [0, 0, 1, 2]
    assert kw.tolist() == [unseen_id("cc"), unseen_id("dd")]
    lists = pa.array([["aa"], None, ["bb", ""], []]).slice(1)
    assert Encoder().lists(lists)[0].tolist() == [0, 0, 1, 1]
    assert Encoder().texts([])[0].tolist() == [0]
    assert Encoder().texts(pa.array([None, None], pa.string()))[0].tolist() == [0, 0, 0]


def test_encoder_holds_a_text_larger_than_its_memory():
    """One text may have more words than the encoder remembers."""
    words = [f"w{n}" for n in range(5_000)]
    _, kw = Encoder(remember=10).texts(["first", " ".join(words), "last"])
    assert kw[1:-1].tolist() == sorted(map(unseen_id, words))


def test_encoder_takes_keywords_of_any_length():
    """A keyword too long to be remembered has its id all the same."""
    long = "Word" * 100
    column = pa.array([[long, "b"], [long]])
    encoder = Encoder()
    for _ in range(2):
        assert encoder.lists(column)[1].tolist() == [
            *sorted([unseen_id(long.lower()), unseen_id("b")]),
            unseen_id(long.lower()),
        ]


def test_new_words_are_told_once_and_only_if_asked_for():
    """Words are told with their ids when they are met first, in texts, lists or alone; never without tracking."""
    encoder = Encoder(Vocabulary.of({"ramen": 5}, 9), track_words=True)
    encoder.texts(["Ramen udon the", "udon"])
    assert sorted(encoder.new_words()) == [(0, "ramen"), (unseen_id("udon"), "udon")]
    encoder.lists(pa.array([["UDON", "soba"]]))
    encoder.words(["Soba", "miso"])
    assert sorted(word for _, word in encoder.new_words()) == ["miso", "soba"]
    assert encoder.new_words() == []
    silent = Encoder()
    silent.texts(["ramen"])
    assert silent.new_words() == []


def test_new_words_are_bounded():
    """Words that nobody asks for are an error before they fill the memory; asked for, they may be told again, not missed."""
    encoder = Encoder(track_words=True, remember=3)
    with pytest.raises(RunError, match="3 new words wait to be asked for"):
        encoder.texts(["aa bb cc dd"])
    assert len(encoder.new_words()) == 3
    assert encoder.texts(["dd aa"])[1].tolist() == sorted(map(unseen_id, ["aa", "dd"]))
    encoder = Encoder(track_words=True, remember=3)
    told = []
    for word in ["aa", "bb", "cc", "dd", "ee", "aa"]:
        encoder.texts([word])
        told += [word for _, word in encoder.new_words()]
    assert set(told) == {"aa", "bb", "cc", "dd", "ee"}
