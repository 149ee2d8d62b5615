"""Tests of `python -m bench.search`: its figures measure what their labels claim."""

from random import Random

import pytest

from bench import search
from shared.search.tokenizer import distance, words


def test_typo_changes_one_letter_of_one_word() -> None:
    random = Random(4)
    for _ in range(200):
        typo = search.with_typo("The Big Terminal", random)
        assert typo is not None
        the, big, other = words(typo)
        assert (the, big) == ("the", "big")
        assert distance("terminal", other, 2) == 1
    assert search.with_typo("The 2001 of 東京物語", random) is None


def test_generated_films_are_reproducible() -> None:
    def generated() -> list[object]:
        random = Random(1)
        return list(search.random_videos(3, search.RandomLanguage(random, 500), random, cues=2))

    assert generated() == generated()


@pytest.mark.slow
def test_every_catalogue_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    demo = search.demo_videos()
    assert len(demo) > 3_000
    for name, value in {"QUERIES": 3, "COMMITS": 2, "CUES": 5, "VOCABULARY": 500}.items():
        monkeypatch.setattr(search, name, value)
    monkeypatch.setattr(search, "demo_videos", lambda: demo[:20])
    search.main(["40", "3"])
    output = capsys.readouterr().out
    assert "without captions: 40 films in" in output
    assert "with 5 cues each: 3 films in" in output
    assert output.count("a quote without its marks") == 2
    assert output.count("titles with a typo are among the first three hits") == 3
