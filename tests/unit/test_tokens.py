"""The tokeniser of the contract, by example."""

import pytest

from streams.tokens import STOP_WORDS, is_keyword, tokenise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("Tornado; F3; St. Louis; Missouri", {"tornado", "f3", "st", "louis", "missouri"}),
        ("The cat AND the hat", {"cat", "hat"}),
        ("a b c", set()),
        ("under_score, dash-ed", {"under", "score", "dash", "ed"}),
        ("STRASSE Straße", {"strasse"}),
        ("ﬁsh ①② ＡＢ", {"fish", "12", "ab"}),
        ("Ｔｈｅ", set()),
        ("東京 タワー", {"東京", "タワー"}),
        ("e\u0301te\u0301", {"été"}),
        ("nul\0byte", {"nul", "byte"}),
        ("x² + y²", {"x2", "y2"}),
    ],
)
def test_tokenise_by_example(text, expected):
    """NFKC, case-folded, split on what is neither letter nor digit; short tokens and stop words dropped."""
    assert tokenise(text) == expected


def test_is_keyword_drops_letters_and_stop_words():
    """A keyword has two characters or more and is no stop word."""
    assert is_keyword("to") is False
    assert is_keyword("x") is False
    assert is_keyword("tornado") is True
    assert "the" in STOP_WORDS
