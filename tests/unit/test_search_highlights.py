"""Highlights: the parts of a video that match the query, and quotes from its captions."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.errors import InvalidParameter
from shared.search.document import VideoDocument
from shared.search.highlights import (
    CUT,
    LONGEST_PART,
    MAX_VALUES,
    CaptionQuote,
    HighlightedPart,
    Highlighter,
    Highlights,
)
from shared.search.query_parser import parse
from shared.search.stored import StoredFields
from shared.search.tokenizer import distance

Cues = Mapping[str, Sequence[tuple[int, str]]]

LINES = [
    (0, "A long time ago in a galaxy far, far away…"),
    (4_000, "♪ ♪"),
    (5_500, "The Force is strong with this one."),
    (9_000, "Remember, the Force"),
    (10_250, "will be with you,"),
    (12_000, "always. Don't forget it."),
    (20_000, "These aren't the droids you're looking for."),
]
STAR_WARS = "Star Wars: A New Hope"


def stored(title: str = STAR_WARS, *, captions: Cues | None = None, **others: object) -> StoredFields:
    """Return the stored fields of a video, as the index returns them."""
    captions_ = {"en": LINES} if captions is None else captions
    fields = VideoDocument("v", "alice", title, 0, True, captions=captions_, **others)  # type: ignore[arg-type]
    return StoredFields.of(fields)


def highlights(q: str, fields: StoredFields) -> Highlights:
    """Return the highlights of a query in one video."""
    return Highlighter(parse(q)).of(fields)


def marked(text: str, ranges: Sequence[tuple[int, int]]) -> str:
    """Return the text with brackets around the highlighted ranges."""
    for start, end in reversed(ranges):
        text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
    return text


def parts(q: str, **fields: object) -> list[str]:
    """Return the highlighted fields of a video without captions, with brackets around the matches."""
    highlighted = highlights(q, stored(captions={}, **fields))  # type: ignore[arg-type]
    return [f"{part.field}: {marked(part.text, part.ranges)}" for part in highlighted.parts]


def quote(q: str, captions: Cues | None = None) -> tuple[int, str] | None:
    """Return start time and text of the quoted caption, with brackets around the matches. `None` if no caption
    matches."""
    highlighted = highlights(q, stored(captions=captions)).quote
    return highlighted and (highlighted.start, marked(highlighted.text, highlighted.ranges))


# Titles, names, tags and descriptions


@pytest.mark.parametrize(
    ("q", "title", "expected"),
    [
        ("wars", STAR_WARS, "Star [Wars]: A New Hope"),
        ("new star", STAR_WARS, "[Star] Wars: A [New] Hope"),
        ("sta", STAR_WARS, "[Star] Wars: A New Hope"),
        ("satr ", STAR_WARS, "[Star] Wars: A New Hope"),
        ('"a new"', STAR_WARS, "Star Wars: [A] [New] Hope"),
        ("arger", "Großer ÄRGER", "Großer [ÄRGER]"),
        ("grosser", "Großer Ärger", "[Großer] Ärger"),
        ("spiderman", "The Spider-Man", "The [Spider-Man]"),
        ("spider", "The Spider-Man", "The [Spider]-Man"),
        ("京物", "東京物語", "東[京物]語"),
        ("東京物", "東京物語", "[東京物]語"),
        ("語", "東京物語", "東京物[語]"),
        ("cafe", "Cafe\u0301 Müller", "[Cafe\u0301] Müller"),
        ("fin", "La ﬁn", "La [ﬁn]"),
        ("x", "🎬 X", "🎬 [X]"),
    ],
)
def test_matching_words_are_highlighted(q: str, title: str, expected: str) -> None:
    assert parts(q, title=title) == [f"title: {expected}"]


def test_phrase_words_are_highlighted_where_they_are_adjacent() -> None:
    assert parts('"new hope"', title="A New Hope, New and Hope") == ["title: A [New] [Hope], New and Hope"]


def test_typos_are_highlighted_only_without_a_better_match() -> None:
    assert parts("heat", title="Heat", description="A heart of heat") == [
        "title: [Heat]",
        "description: A heart of [heat]",
    ]
    assert parts("haet ", title="Heat", description="A tale") == ["title: [Heat]"]


def test_best_matching_names_and_tags_are_shown() -> None:
    names = ["Al Pacino", "Al", "Robert De Niro", *(f"Al {number}" for number in range(5))]
    assert parts("al pacino", title="Heat", names=names) == ["names: [Al] [Pacino]", "names: [Al]", "names: [Al] 0"]
    assert len(parts("al ", title="Heat", names=names)) == MAX_VALUES
    assert parts("noir", title="Heat", tags=["Neo Noir", "USA"]) == ["tags: Neo [Noir]"]


def test_matching_part_of_a_long_description_is_shown() -> None:
    text = "word " * 100 + "Robots " + "other " * 100 + "robots"
    (part,) = highlights("robots", stored(captions={}, description=text)).parts
    assert marked(part.text, part.ranges).count("[Robots]") == 1
    assert part.text.startswith(CUT + "word ")
    assert part.text.endswith(" other" + CUT)
    assert len(part.text) <= LONGEST_PART + 2 * len(CUT)
    (first,) = highlights("word", stored(captions={}, description=text)).parts
    assert first.text.startswith("word ")
    unbroken = highlights("x", stored(captions={}, description="é" * 300 + " x " + "é" * 300)).parts[0]
    assert "[x]" in marked(unbroken.text, unbroken.ranges)


def test_excluded_words_are_not_highlighted() -> None:
    assert parts("star -hope") == ["title: [Star] Wars: A New Hope"]


# Quotes of captions


@pytest.mark.parametrize(
    ("q", "cue"),
    [
        ("droids", (20_000, "These aren't the [droids] you're looking for.")),
        ("arent", (20_000, "These [aren't] the droids you're looking for.")),
        ("droid", (20_000, "These aren't the [droids] you're looking for.")),
        ("driods ", (20_000, "These aren't the [droids] you're looking for.")),
        ("force strong", (5_500, "The [Force] is [strong] with this one.")),
        ("strng forse ", (5_500, "The [Force] is [strong] with this one.")),
        ('"the droids"', (20_000, "These aren't [the] [droids] you're looking for.")),
        (
            '"force will be with you always"',
            (9_000, "Remember, the [Force] [will] [be] [with] [you], [always]. Don't forget it."),
        ),
        ("the force will be with you", (9_000, "Remember, [the] [Force] [will] [be] [with] [you],")),
        ("the force will be with yo", (9_000, "Remember, [the] [Force] [will] [be] [with] [you],")),
        ("you always remember", (9_000, "[Remember], the Force will be with [you], [always]. Don't forget it.")),
        ("force be", (9_000, "Remember, the [Force] will [be] with you,")),
        (
            'remember "with you always"',
            (9_000, "[Remember], the Force will be [with] [you], [always]. Don't forget it."),
        ),
        ("far", (0, "A long time ago in a galaxy [far], [far] away…")),
        ("forget it", (12_000, "always. Don't [forget] [it].")),
        ("absent", None),
    ],
)
def test_best_matching_cue_is_quoted(q: str, cue: tuple[int, str] | None) -> None:
    assert quote(q) == cue


def test_query_with_a_repeated_word_quotes_a_sentence_that_repeats_it() -> None:
    captions = {"en": [(0, "so new"), (5_000, "It was so, so new.")]}
    assert quote("so so new", captions) == (5_000, "It was [so], [so] [new].")


def test_complete_last_word_of_a_query_matches_only_complete_words() -> None:
    captions = {"en": [(0, "new 東 newer"), (5_000, "new 東 new")]}
    assert quote("new 東 new ", captions) == (5_000, "[new] [東] [new]")
    assert quote("new 東 new", captions) == (0, "[new] [東] [newer]")


def test_number_of_word_comparisons_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search captions in which nearly every word is a typo of a word of the query."""
    anagrams = ["".join(letters) for letters in permutations("abcdef")]
    compared = Counter[str]()

    def counted(one: str, other: str, most: int) -> int:
        compared["words"] += 1
        return distance(one, other, most)

    monkeypatch.setattr("shared.search.query_parser.distance", counted)
    monkeypatch.setattr("shared.search.highlights.MAX_COMPARED", 1_000)
    highlighter = Highlighter(parse(" ".join(anagrams[::30]) + " "))
    for number in range(3):
        cues = [(offset, " ".join(anagrams[offset::9])) for offset in range(9)]
        highlighted = highlighter.of(stored("fedcba", description=" ".join(anagrams[number::7]), captions={"en": cues}))
        assert highlighted.quote is not None, "an exact quote is found despite the comparison limit"
    assert compared["words"] <= 1_000


def test_first_of_equally_good_cues_is_quoted() -> None:
    assert quote("force") == (5_500, "The [Force] is strong with this one.")


def test_quote_is_in_the_best_matching_language() -> None:
    captions = {"de": [(1, "Möge die Macht mit dir sein, you")], "en": LINES}
    assert quote("macht dir", captions) == (1, "Möge die [Macht] mit [dir] sein, you")
    assert quote("force you", captions) == (9_000, "Remember, the [Force] will be with [you],")


def test_runs_without_spaces_are_found_in_cues() -> None:
    captions = {"ja": [(0, "はじめまして"), (2_000, "東京へ"), (3_000, "行きましょう")]}
    assert quote("行きま", captions) == (3_000, "[行きま]しょう")
    assert quote("京へ", captions) == (2_000, "東[京へ]")


def test_quote_of_common_words_alone_is_omitted() -> None:
    captions = {"en": [(0, "the end")]}
    assert highlights("the matrix", stored("The Matrix", captions=captions)).quote is None
    assert highlights("matrix end", stored("The Matrix", captions=captions)).quote is not None
    assert highlights("the end ", stored("The End", captions=captions)).quote == CaptionQuote(
        "en", 0, "the end", [(0, 3), (4, 7)]
    )


def test_quote_starts_with_the_cue_of_its_first_word() -> None:
    random_ = random.Random(3)
    vocabulary = ["".join(random_.choices("abcdefghijklmnop", k=random_.randint(2, 7))) for _ in range(400)]
    cues = [(1_000 * number, " ".join(random_.choices(vocabulary, k=6))) for number in range(300)]
    fields = stored(captions={"en": cues})
    spoken = [(start, word) for start, text in cues for word in text.split()]
    for _ in range(100):
        at = random_.randrange(len(spoken) - 8)
        phrase = " ".join(word for _, word in spoken[at : at + random_.randint(4, 8)])
        for q in (phrase, f'"{phrase}"'):
            highlighted = highlights(q, fields).quote
            assert highlighted is not None
            assert highlighted.start == spoken[at][0]


WORDS = st.sampled_from(["force", "the", "You", "always", "far", "東京", "x", "don't", '"', "-", " ", "fo", "forse"])


@given(st.lists(WORDS, max_size=6).map(" ".join), st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=12))
def test_highlighted_ranges_are_within_their_texts_and_do_not_overlap(
    q: str, described: list[str], spoken_words: list[str]
) -> None:
    try:
        query = parse(q)
    except InvalidParameter:
        return
    fields = stored(
        "far", description=" ".join(described), captions={"en": [(at, word) for at, word in enumerate(spoken_words)]}
    )
    highlighted = Highlighter(query).of(fields)
    parts_: list[HighlightedPart | CaptionQuote] = [
        *highlighted.parts,
        *([highlighted.quote] if highlighted.quote else []),
    ]
    for part in parts_:
        assert part.ranges
        ends = [end for each in part.ranges for end in each]
        assert ends == sorted(ends)
        assert ends[0] >= 0
        assert ends[-1] <= len(part.text)
        assert all(start < end for start, end in part.ranges)
