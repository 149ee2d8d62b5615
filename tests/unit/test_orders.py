"""Sort values of lists by title, rating and views."""

import pytest

from shared.videos.orders import LONGEST_TITLE, rating_value, title_value, views_value


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("Part 9", "Part 10"),
        ("Part 010", "Part 11"),
        ("Part " + "9" * 12, "Part 1" + "0" * 12),
        ("2 Fast", "A"),
        ("Élan", "Emil"),
        ("Straße 1", "STRASSE 2"),
        ("  A   b", "a c"),
        ("a" * 255 + "é", "b"),
    ],
)
def test_titles_sort_without_case_and_accents_and_numbers_by_value(lower: str, higher: str) -> None:
    assert title_value(lower) < title_value(higher)


@pytest.mark.parametrize(("title", "same"), [("ÉTÉ", "été"), ("ﬁlm", "FILM"), ("Part 007", "part 7"), ("a  b", "A b ")])
def test_titles_that_differ_only_in_form_have_the_same_value(title: str, same: str) -> None:
    assert title_value(title) == title_value(same)


@pytest.mark.parametrize("title", ["\u0301", "9" * 500, "字" * 500, "é" * 500, "x" * 500, "\U0001f3ac"])
def test_value_of_any_title_is_a_valid_key(title: str) -> None:
    assert 1 <= len(title_value(title).encode()) <= LONGEST_TITLE


def test_ratings_and_views_sort_by_value() -> None:
    assert rating_value(0, 0) is None
    ratings = [rating_value(total, votes) for total, votes in ((19, 2), (10, 1), (1, 1), (17, 3))]
    assert ratings == ["0950", "1000", "0100", "0567"]
    assert sorted(map(views_value, (10, 9, 100, 0))) == list(map(views_value, (0, 9, 10, 100)))
