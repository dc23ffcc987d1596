"""The encoder against the tokeniser of the contract, one text at a time."""

import re
import unicodedata

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from streams.tokens import ROW_END, STOP_WORDS, split_rows, tokenise
from streams.vocabulary import Encoder, Vocabulary, unseen_id

VOCABULARY = Vocabulary(("storm", "hail", "straße", "東京", "wind"), np.array([5, 4, 3, 2, 1]), 10)

#: Text of what tells tokenisers apart: case, separators, compatibility forms, combining marks, digits, NUL.
awkward = st.text(st.sampled_from("aAbBzZ09 _-,.\0\n\tßſİıéÉ東京ﬁ①²ａＡ\u0301\u0345ΐ\ufdfa\U0001d7d8ªx"), max_size=40)
sentences = st.lists(
    st.sampled_from(["Storm", "HAIL", "the", "a", "of", "Straße", "STRASSE", "東京", "x", "F3", "wind,hail", "O'Brien"])
).map(" ".join)
texts = st.one_of(st.text(max_size=40), awkward, sentences)


def naive_tokens(text):
    """Return the tokens as the contract says it: NFKC, case-folded, split on what is neither letter nor digit."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    pieces = "".join(c if c.isalnum() else " " for c in folded).split(" ")
    return {piece for piece in pieces if len(piece) > 1 and piece not in STOP_WORDS}


def naive_ids(words, vocabulary):
    """Return the ids of words, ascending: their rank, or the hash that any process computes."""
    ranks = {word: rank for rank, word in enumerate(vocabulary.words)}
    return sorted({ranks.get(word, unseen_id(word)) for word in words})


def rows_of(off, kw):
    """Return ragged rows as lists."""
    return [kw[a:b].tolist() for a, b in zip(off[:-1].tolist(), off[1:].tolist(), strict=True)]


@given(texts)
@example("\ufdfa")
@example("a\u0301b")
@example("İstanbul ǅ")
def test_tokenise_follows_the_contract(text):
    """A text's keywords are what the contract's own words give, character by character."""
    assert tokenise(text) == naive_tokens(text)


@given(st.lists(texts, max_size=8))
def test_split_rows_keeps_rows_apart(rows):
    """Tokenising many texts at once gives each text the tokens it has alone."""
    tokens, found = [], []
    for token in split_rows(rows):
        if token == ROW_END:
            found.append(tokens)
            tokens = []
        else:
            tokens.append(token)
    assert tokens == []
    assert found == [[token for token in split_rows([row]) if token != ROW_END] for row in rows]


@given(st.lists(texts, max_size=8))
@example(["storm " * 50, "", "Hail hail HAIL"])
def test_encoder_texts_are_those_of_the_tokeniser(rows):
    """The ids of a text are those of its keywords, ascending and once each."""
    off, kw = Encoder(VOCABULARY).texts(rows)
    assert rows_of(off, kw) == [naive_ids(naive_tokens(row), VOCABULARY) for row in rows]


@given(st.lists(st.lists(texts, max_size=6), min_size=1, max_size=5), st.integers(1, 6))
def test_encoder_gives_the_same_ids_whatever_it_remembers(batches, remember):
    """Starting afresh when its memory is full changes no id."""
    encoder = Encoder(VOCABULARY, remember=remember)
    for rows in batches:
        assert rows_of(*encoder.texts(rows)) == rows_of(*Encoder(VOCABULARY).texts(rows))
        words = pa.array([sorted(naive_tokens(row)) for row in rows], pa.list_(pa.string()))
        assert rows_of(*encoder.lists(words)) == rows_of(*Encoder(VOCABULARY).texts(rows))


@given(st.lists(st.one_of(st.none(), st.lists(st.one_of(texts, st.just("")), max_size=6)), max_size=8))
def test_encoder_lists_are_folded_words_taken_whole(rows):
    """The ids of a list are those of its case-folded words; empty words and empty lists have none."""
    off, kw = Encoder(VOCABULARY).lists(pa.array(rows, pa.list_(pa.string())))
    assert rows_of(off, kw) == [naive_ids({w.casefold() for w in row or [] if w}, VOCABULARY) for row in rows]


@given(st.lists(st.text(max_size=12), max_size=8))
def test_encoder_words_keep_order_and_repetition(words):
    """The ids of words stand where the words stand."""
    assert Encoder(VOCABULARY).words(words).tolist() == [naive_ids([word.casefold()], VOCABULARY)[0] for word in words]


@given(st.lists(st.lists(texts, max_size=5), min_size=1, max_size=4), st.booleans())
def test_new_words_tells_every_word_once(batches, as_lists):
    """Over all calls each met word is told exactly once, with its id."""
    encoder, told, met = Encoder(VOCABULARY, track_words=True), [], set()
    for rows in batches:
        words = [sorted(naive_tokens(row)) for row in rows]
        if as_lists:
            encoder.lists(pa.array(words, pa.list_(pa.string())))
        else:
            encoder.texts(rows)
        told += encoder.new_words()
        met |= {word for row in words for word in ({w.casefold() for w in row} if as_lists else row)}
    assert sorted(word for _, word in told) == sorted(met)
    assert all(number == naive_ids([word], VOCABULARY)[0] for number, word in told)


def test_stop_words_are_tokens_themselves():
    """Each stop word is what the tokeniser would find, or it could never be dropped."""
    assert all(re.fullmatch("[a-z]{2,}", word) for word in STOP_WORDS)
