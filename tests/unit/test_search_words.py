"""Splitting of texts into words, and spellings that count as the same word."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.search.tokenizer import LONGEST_WORD, distance, joined, prefix_distance, tokens, typos_allowed, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Matrix (1999)", ["the", "matrix", "1999"]),
        ("Ärger, Übermut & Ñandú", ["arger", "ubermut", "nandu"]),
        ("STRAßE Straße STRASSE", ["strasse", "strasse", "strasse"]),
        ("Smørrebrød Æon Łódź Đoković", ["smorrebrod", "aeon", "lodz", "dokovic"]),
        ("İstanbul ısı", ["istanbul", "isi"]),
        ("ﬁn ＡＢＣ Ⅳ x²", ["fin", "abc", "iv", "x2"]),
        ("Ночной поезд Ёлка", ["ночнои", "поезд", "елка"]),
        ("ΟΔΥΣΣΕΥΣ Ὀδυσσεύς", ["οδυσσευσ", "οδυσσευσ"]),
        ("शोले हिन्दी", ["शोले", "हिन्दी"]),
        ("שָׁלוֹם", ["שלום"]),
        ("don't we’ll it's", ["dont", "well", "its"]),
        ("L'été O'Hara rock'n'roll", ["l", "ete", "o", "hara", "rock", "n", "roll"]),
        ("Spider-Man U.S.A. a~9 snake_case", ["spider", "man", "u", "s", "a", "a", "9", "snake", "case"]),
        ("東京物語", ["東京", "京物", "物語", "語"]),
        ("猫 第3話", ["猫", "第", "3", "話"]),
        ("コーヒー 기생충", ["コー", "ーヒ", "ヒー", "ー", "기생", "생충", "충"]),
        ("", []),
        ("… \"-\" '' ♪ 🎬", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_folded(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_tokens_have_the_positions_of_their_words() -> None:
    text = "Die Straße, L'été — ﬁn e\u0301te\u0301 東京"
    parts = [text[token.start : token.end] for token in tokens(text)]
    assert parts == ["Die", "Straße", "L", "été", "ﬁn", "e\u0301te\u0301", "東京", "京"]


def test_long_words_are_truncated() -> None:
    assert words("a" * 1000) == ["a" * LONGEST_WORD]


def test_joined_returns_words_without_their_hyphens_and_dots() -> None:
    for text, expected in {
        "Spider-Man and the X-Men": ["spiderman", "xmen"],
        "U.S.A. or WALL·E": ["usa", "walle"],
        "O’Hara": ["ohara"],
        "Mr. Smith - a life": [],
        "one--two": [],
        "don't": [],
        "東京-物語": [],
    }.items():
        assert [token.word for token in joined(text, tokens(text))] == expected
    join = joined("The Spider-Man.", tokens("The Spider-Man."))[0]
    assert (join.start, join.end) == (4, 14)


@given(st.text(max_size=60))
@example("e\u0301\u0301" * 5)
@example("\u1112\u1161\u11ab\u1100\u1173\u11af")
@example("ŉ ẞ ǰ ﷺ")
def test_all_forms_of_a_text_have_the_same_words(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    # Decomposition can attach the marks after some characters to another character; these texts are not compared.
    if unicodedata.normalize("NFC", unicodedata.normalize("NFD", composed)) == composed:
        assert words(unicodedata.normalize("NFD", composed)) == words(composed)


@given(st.text(max_size=60))
def test_tokens_are_ordered_and_within_the_text(text: str) -> None:
    expected = tokens(text)
    for token in expected:
        assert 0 <= token.start < token.end <= len(text)
        assert token.word
        assert not set(token.word) & set(" \n'-.")
    assert [token.start for token in expected] == sorted(token.start for token in expected)


@given(st.text(max_size=30))
def test_splitting_a_word_again_returns_the_same_word(text: str) -> None:
    for word in words(text):
        # in scripts without spaces, a word of two characters is split into the word and its last character
        if len(words(word)) == 1:
            assert words(word) == [word]


@pytest.mark.parametrize(
    ("word", "typos"), [("the", 0), ("heat", 1), ("matrix1", 1), ("terminal", 2), ("2001", 0), ("東京", 0)]
)
def test_longer_words_may_have_more_typos(word: str, typos: int) -> None:
    assert typos_allowed(word) == typos


@pytest.mark.parametrize(
    ("one", "other", "typos"),
    [
        ("matrix", "matrix", 0),
        ("matrix", "matrx", 1),
        ("matrix", "matrixx", 1),
        ("matrix", "mstrix", 1),
        ("matrix", "matirx", 1),
        ("matrix", "amtirx", 2),
        ("matrix", "trix", 2),
        ("abc", "ca", 3),  # deleting `b` and swapping `a` and `c` does not count as two typos
        ("matrix", "heat", 3),
    ],
)
def test_swapped_neighbours_are_one_typo(one: str, other: str, typos: int) -> None:
    assert distance(one, other, 2) == distance(other, one, 2) == typos


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_distance_is_capped_one_above_the_maximum(one: str, other: str) -> None:
    exact = distance(one, other, 20)
    assert [distance(one, other, most) for most in range(4)] == [min(exact, most + 1) for most in range(4)]
    assert prefix_distance(one, other, 2) == min([distance(one, other[:end], 2) for end in range(len(other) + 1)])
