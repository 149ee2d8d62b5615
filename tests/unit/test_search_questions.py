"""Parsing of search queries into clauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.errors import InvalidParameter
from shared.search.query_parser import (
    EXACT,
    LONGEST,
    MAX_CLAUSES,
    PREFIX,
    PREFIX_TYPO,
    TYPO,
    QueryPhrase,
    QueryWord,
    parse,
)


def test_last_word_without_a_following_space_is_a_prefix() -> None:
    assert parse("The Spide").clauses == (
        QueryWord("the", may_lack_letter=True),
        QueryWord("spide", typos=1, is_prefix=True),
    )
    assert parse("The Spide ").clauses == (QueryWord("the", may_lack_letter=True), QueryWord("spide", typos=1))


def test_long_prefix_may_have_a_typo() -> None:
    assert parse("terminat").clauses == (QueryWord("terminat", typos=2, is_prefix=True, prefix_typos=1),)


def test_phrases_are_exact() -> None:
    assert parse('"May the force" star').clauses == (
        QueryPhrase(("may", "the", "force")),
        QueryWord("star", typos=1, is_prefix=True),
    )
    assert parse('"matrix" ').clauses == (QueryWord("matrix"),)
    assert parse("„Das Boot“ «Le Havre» “Big Fish”").clauses == (
        QueryPhrase(("das", "boot")),
        QueryPhrase(("le", "havre")),
        QueryPhrase(("big", "fish")),
    )


def test_unclosed_phrase_ends_with_a_prefix() -> None:
    assert parse('"may the fo').clauses == (QueryPhrase(("may", "the")), QueryWord("fo", is_prefix=True))
    assert parse('"ma').clauses == (QueryWord("ma"),)


def test_minus_excludes_words_and_phrases() -> None:
    query = parse('matrix -reloaded -"the second part" --x')
    assert query.clauses == (QueryWord("matrix", typos=1),)
    assert query.excluded == (QueryWord("reloaded"), QueryPhrase(("the", "second", "part")), QueryWord("x"))


def test_hyphen_within_a_word_excludes_nothing() -> None:
    query = parse("spider-man ")
    assert query.clauses == (QueryWord("spider", typos=1), QueryWord("man", may_lack_letter=True))
    assert query.excluded == ()
    assert parse("x -spider-man").excluded == (QueryPhrase(("spider", "man")),)


def test_runs_without_spaces_are_phrases_of_pairs() -> None:
    assert parse("東京物語").clauses == (QueryPhrase(("東京", "京物", "物語")),)
    assert parse("東京").clauses == (QueryWord("東京"),)
    assert parse("第3話 猫 ").clauses == (
        QueryWord("第", is_prefix=True),
        QueryWord("3"),
        QueryWord("話", is_prefix=True),
        QueryWord("猫", is_prefix=True),
    )
    assert parse('"東京 物語"').clauses == (QueryPhrase(("東京", "京", "物語")),)


@pytest.mark.parametrize(
    "operators", ["a~9", "a^9", "a:9", "[a TO 9]", "/a.9/", "a* 9?", "+a &9", "(a || 9)", "\\a\\9"]
)
def test_operators_of_other_engines_are_plain_text(operators: str) -> None:
    texts = parse(operators + " ").words
    assert {"a", "9"} <= set(texts)
    assert set(texts) <= {"a", "9", "to"}


def test_repeated_words_become_one_clause() -> None:
    query = parse("new york new york ")
    assert query.clauses == (QueryWord("new", may_lack_letter=True), QueryWord("york", typos=1))
    assert query.words == ("new", "york", "new", "york"), "as it may be said"


@pytest.mark.parametrize(
    ("q", "detail"),
    [
        ("", "must have a word to search for"),
        (" ", "must have a word to search for"),
        ('""""', "must have a word to search for"),
        ("--- ~~~ ♪", "must have a word to search for"),
        ("-matrix", "must have a word to search for, not only excluded words"),
        ("a" * (LONGEST + 1), f"must have at most {LONGEST} characters and no control characters"),
        ("x" * 10_000, f"must have at most {LONGEST} characters and no control characters"),
        ("a\0b", f"must have at most {LONGEST} characters and no control characters"),
        ("a\nb", f"must have at most {LONGEST} characters and no control characters"),
        (
            " ".join(f"w{number}" for number in range(MAX_CLAUSES + 1)),
            f"must have at most {MAX_CLAUSES} words and phrases",
        ),
    ],
)
def test_invalid_query_is_refused_with_a_reason(q: str, detail: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parse(q)
    assert refused.value.errors == [{"parameter": "q", "detail": detail}]


def test_query_keeps_common_words() -> None:
    assert parse("the of and ").words == ("the", "of", "and")


@pytest.mark.parametrize(
    ("q", "word", "fit"),
    [
        ("heat", "heat", EXACT),
        ("heat", "heater", PREFIX),
        ("heat ", "heats", TYPO),
        ("heat ", "heater", 0),
        ("hea", "hat", 0),
        ("het ", "heat", TYPO),  # one letter is missing
        ("hat ", "heats", 0),
        ("999 ", "1999", 0),
        ("terminatr", "terminator", TYPO),
        ("termnat", "terminator", PREFIX_TYPO),
        ("termnat ", "terminator", 0),
        ("2001 ", "2010", 0),
        ("物", "物語", PREFIX),
    ],
)
def test_word_fit_is_exact_prefix_typo_or_none(q: str, word: str, fit: int) -> None:
    (clause,) = parse(q).clauses
    assert isinstance(clause, QueryWord)
    assert clause.fit(word) == fit


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\u2028\u2029"), max_size=80))
def test_any_text_is_a_query_with_words_or_refused(q: str) -> None:
    try:
        query = parse(q)
    except InvalidParameter:
        return
    assert query.clauses
    for text in query.words:
        assert text
        assert " " not in text
