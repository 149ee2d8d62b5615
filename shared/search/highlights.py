"""Highlights: the words of a video that match a query, and a matching quote from its captions.

Tantivy's snippets are not used, because they support neither typos, prefixes nor cues.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared.search.query_parser import PREFIX, Clause, QueryPhrase, QueryWord, SearchQuery
from shared.search.stored import CaptionText, StoredFields
from shared.search.tokenizer import Token, joined, spans, tokens

LONGEST_PART = 240
"""Maximum number of characters of a description that a highlight shows, around the first match."""
BEFORE = 60
"""Maximum number of characters of a description that a highlight shows before the first match."""
MAX_VALUES = 3
"""Maximum number of names that highlights show, and maximum number of tags. Highlights prefer the names and
tags that match the largest numbers of clauses."""
MAX_ANCHORS = 100
"""Maximum number of positions in captions at which the search for the best quote starts. They are the positions of the
clause that occurs least often in the captions."""
WIDEST = 3
"""Maximum number of adjacent cues in a quote. A quote can have more cues if it contains an exact phrase."""
MAX_COMPARED = 50_000
"""Maximum number of edit distances that are computed per page of results. Computing all of them takes about half a
second.

A page of videos with long captions usually needs a tenth of the maximum. The limit bounds the cost if a user writes
captions with many words that resemble the words of a query.
"""
MAX_SPELLINGS = 8
"""Maximum number of different words in the captions that count as misspellings of one query word."""
CUT = "…"

Range = tuple[int, int]


class HighlightedPart(NamedTuple):
    """Text of a video, or an excerpt of it, and the ranges in the text that match the query."""

    field: str
    """Field that contains the text: `title`, `names`, `tags` or `description`."""
    text: str
    ranges: Sequence[Range]
    """Start and end of each match in code points of `text`. The end is exclusive."""


class CaptionQuote(NamedTuple):
    """Caption excerpt that matches the query best: one cue or several adjacent cues."""

    language: str
    start: int
    """Start of the first cue in milliseconds."""
    text: str
    """Text of the cues, joined by spaces."""
    ranges: Sequence[Range]


@dataclass(frozen=True)
class Highlights:
    """Matches of a query in one video."""

    parts: Sequence[HighlightedPart]
    quote: CaptionQuote | None
    """Best quote from the captions. A quote must match the whole query, or a clause that no other text of the video
    matches. `None` if the best quote does neither."""


class _Match(NamedTuple):
    clause: int
    fit: int
    tokens: Sequence[Token]


class _WordMatches(dict[str, tuple[tuple[int, int], ...]]):
    """Cache that maps each word of a text to the query words that match it. Each match is a pair: the number of the
    query word's clause, and the quality of the match."""

    def __init__(self, clauses: Sequence[Clause]) -> None:
        self._words = {
            number: _QueryWord.of(clause) for number, clause in enumerate(clauses) if isinstance(clause, QueryWord)
        }
        self._fitting: dict[int, set[str]] = {number: set() for number in self._words}
        self._compared: dict[int, set[str]] = {number: set() for number in self._words}
        self._remaining = MAX_COMPARED

    def __missing__(self, word: str) -> tuple[tuple[int, int], ...]:
        fits = (
            (number, self._fit(query_word, word))
            for number, query_word in self._words.items()
            if query_word.may_be(word)
        )
        found = self[word] = tuple((number, fit) for number, fit in fits if fit)
        return found

    def among(self, words: set[str], clause: int) -> set[str]:
        """Return the elements of `words` that match the query word of clause number `clause`. Typos are allowed until
        MAX_COMPARED comparisons have been made."""
        query_word, fitting, compared = self._words[clause], self._fitting[clause], self._compared[clause]
        fitting.update(word for word in words - compared if query_word.may_be(word) and self._fit(query_word, word))
        compared |= words
        return words & fitting

    def _fit(self, query_word: "_QueryWord", word: str) -> int:
        self._remaining -= 1
        return query_word.word.fit(word, forgiving=self._remaining >= 0)


class _QueryWord(NamedTuple):
    """Word of a query, with the limits by which `may_be` rejects most other words without computing an edit
    distance."""

    word: QueryWord
    letters: frozenset[str]
    most: int
    """Maximum number of typos."""
    shortest: int
    longest: int

    @classmethod
    def of(cls, word: QueryWord) -> "_QueryWord":
        most = max(word.typos, word.prefix_typos, int(word.may_lack_letter))
        length = len(word.text)
        return cls(word, frozenset(word.text), most, length - most, sys.maxsize if word.is_prefix else length + most)

    def may_be(self, word: str) -> bool:
        """Return whether `word` may match, judged only by its length and letters. If the result is false, `word` does
        not match."""
        return self.shortest <= len(word) <= self.longest and len(self.letters.difference(word)) <= self.most


class Highlighter:
    """Finder of the highlights of one query in videos.

    All videos share a cache of the words that match, so a word in several videos is compared with the query only once.
    """

    def __init__(self, search_query: SearchQuery) -> None:
        self._clauses = search_query.clauses
        self._phrases = [
            (number, clause.texts) for number, clause in enumerate(self._clauses) if isinstance(clause, QueryPhrase)
        ]
        self._fits = _WordMatches(self._clauses)
        self._is_sentence = len(search_query.words) > 1
        # The whole query, in case the user typed or pasted a line from the captions.
        self._sentence = f" {' '.join(search_query.words)}" + " " * (not search_query.is_open)

    def of(self, stored: StoredFields) -> Highlights:
        """Return the highlights of a video."""
        texts = [
            ("title", stored.title),
            *(("names", name) for name in stored.names),
            *(("tags", tag) for tag in stored.tags),
        ]
        texts.append(("description", stored.description))
        found = [(field, text, self._matches(text)) for field, text in texts if text]
        best = [0] * len(self._clauses)
        for _, _, matches in found:
            for match in matches:
                best[match.clause] = max(best[match.clause], match.fit)
        parts = []
        for field, text, matches in found:
            if clear := _clear(matches, best):
                parts.append((len({match.clause for match in clear}), _part(field, text, clear)))
        return Highlights(_select_parts(parts), self._quote(stored.captions, best))

    def _matches(self, text: str) -> list[_Match]:
        found = tokens(text)
        matches = [_Match(clause, fit, [token]) for token in found for clause, fit in self._fits[token.word]]
        alone = {match.clause for match in matches}
        for token in joined(text, found):
            matches += [_Match(clause, fit, [token]) for clause, fit in self._fits[token.word] if clause not in alone]
        if self._phrases:
            words = [token.word for token in found]
            for clause, texts in self._phrases:
                matches += [_Match(clause, PREFIX, found[at : at + len(texts)]) for at in _phrase_starts(words, texts)]
        return matches

    def _quote(self, captions: Sequence[CaptionText], best: Sequence[int]) -> CaptionQuote | None:
        """Return the caption quote that matches the largest number of clauses. If quotes in several languages match
        equally many, returns the first one.

        Returns `None` if this quote matches neither the whole query nor a clause that no other text matches. `best`
        has, for each clause, the quality of its best match in the other texts: 0 without a match.
        """
        quotes = [found for caption in captions if (found := self._quoted(caption, best))]
        if not quotes:
            return None
        fitting, quote = max(quotes, key=lambda found: len(found[0]))
        # Common words such as "the" occur in all captions. A quote must match the whole query or a clause that no other
        # text matches.
        adds = len(fitting) == len(self._clauses) or any(not best[clause] for clause in fitting)
        return quote if adds else None

    def _quoted(self, caption: CaptionText, best: Sequence[int]) -> tuple[set[int], CaptionQuote] | None:
        """Return the numbers of the query's clauses that the best quote from `caption` matches, and this quote.

        `caption` has the captions in one language. Returns `None` if they match no clause.
        """
        flat = f" {caption.words} ".replace("\n", " ")
        at = flat.find(self._sentence) if self._is_sentence else -1
        if at >= 0:
            first, last = (caption.words.count("\n", 0, end) for end in (at, at + len(self._sentence.rstrip()) - 1))
            return set(range(len(self._clauses))), self._cited(caption, first, last, best)
        needles = _Needles(flat, self._clauses, self._fits, best).found
        if not needles:
            return None
        anchor = min(needles, key=lambda clause: sum(flat.count(needle) for needle in needles[clause]))
        lines = caption.words.split("\n")
        anchors = _anchors(flat, caption.words, needles[anchor])
        if len(needles) == 1:
            first, last = min(anchors)
            return {anchor}, self._cited(caption, first, last, best)
        windows = {window for spot in anchors for window in _around(*spot, len(lines))}

        def rating(window: Range) -> tuple[int, int, int]:
            text = f" {' '.join(lines[window[0] : window[1] + 1])} "
            return sum(_has(text, each) for each in needles.values()), window[0] - window[1], -window[0]

        first, last = max(windows, key=rating)
        text = f" {' '.join(lines[first : last + 1])} "
        fitting = {clause for clause, each in needles.items() if _has(text, each)}
        return fitting, self._cited(caption, first, last, best)

    def _cited(self, caption: CaptionText, first: int, last: int, best: Sequence[int]) -> CaptionQuote:
        text = " ".join(caption.texts.split("\n")[first : last + 1])
        matches = self._matches(text)
        best_here = list(best)
        for match in matches:
            best_here[match.clause] = max(best_here[match.clause], match.fit)
        ranges = _ranges(_clear(matches, best_here))
        return CaptionQuote(caption.language, int(caption.starts.split(" ")[first]), text, ranges)


class _Needles:
    """Strings to search for in captions, by clause.

    The strings include the spaces around words, so that a substring search finds whole words. A prefix has no space at
    its end.
    """

    def __init__(self, flat: str, clauses: Sequence[Clause], fits: _WordMatches, best: Sequence[int]) -> None:
        self._flat, self._fits = flat, fits
        self._vocabulary: set[str] | None = None
        found = ((number, self._of(number, clause, best)) for number, clause in enumerate(clauses))
        self.found = {number: needles for number, needles in found if needles}

    def _of(self, number: int, clause: Clause, best: Sequence[int]) -> list[str]:
        if isinstance(clause, QueryPhrase):
            exact = f" {' '.join(clause.texts)} "
        else:
            exact = f" {clause.text}" + " " * (not clause.is_prefix)
        if exact in self._flat:
            return [exact]
        if isinstance(clause, QueryPhrase) or best[number] or not (clause.typos or clause.may_lack_letter):
            return []
        if self._vocabulary is None:
            self._vocabulary = set(self._flat.split())
        return [f" {word} " for word in sorted(self._fits.among(self._vocabulary, number))[:MAX_SPELLINGS]]


def _anchors(flat: str, words: str, needles: Iterable[str]) -> list[Range]:
    """Return at most MAX_ANCHORS occurrences of the search strings `needles` in the captions of one language. An
    occurrence is a pair: the numbers of its first and its last cue, from 0.

    `words` is the normalised text of the captions, with one cue per line. `flat` is the same text with spaces instead
    of newlines, and a space at both ends.
    """
    occurrences: list[Range] = []
    for needle in needles:
        cue = counted_to = 0
        at = flat.find(needle)
        while at >= 0 and len(occurrences) < MAX_ANCHORS:
            # `flat` and each search string start with an extra space. Therefore `at` is also the start of the word in
            # `words`.
            cue += words.count("\n", counted_to, at)
            counted_to = at
            occurrences.append((cue, cue + words.count("\n", at, at + len(needle.rstrip()) - 1)))
            at = flat.find(needle, at + 1)
    return occurrences


def _around(first: int, last: int, cues: int) -> Iterable[Range]:
    """Yield each range of at most WIDEST cues that contains the cues from `first` to `last`.

    Yields only the range from `first` to `last` if this range has more than WIDEST cues. `cues` is the number of all
    cues.
    """
    for width in range(last - first + 1, max(WIDEST, last - first + 1) + 1):
        for start in range(max(last - width + 1, 0), first + 1):
            if start + width <= cues:
                yield start, start + width - 1


def _has(text: str, needles: Iterable[str]) -> bool:
    return any(needle in text for needle in needles)


def _phrase_starts(words: Sequence[str], texts: tuple[str, ...]) -> Iterable[int]:
    """Return the indexes in `words` at which the words of the phrase `texts` occur consecutively."""
    return (at for at, word in enumerate(words) if word == texts[0] and tuple(words[at : at + len(texts)]) == texts)


def _clear(matches: Iterable[_Match], best: Sequence[int]) -> list[_Match]:
    """Return the matches to highlight. A match with typos is omitted if any text matches its clause without typos."""
    return [match for match in matches if match.fit >= PREFIX or best[match.clause] < PREFIX]


def _ranges(matches: Iterable[_Match]) -> list[Range]:
    return list(spans(sorted((token for match in matches for token in match.tokens), key=lambda token: token.start)))


def _part(field: str, text: str, matches: Sequence[_Match]) -> HighlightedPart:
    ranges = _ranges(matches)
    if field != "description" or len(text) <= LONGEST_PART:
        return HighlightedPart(field, text, ranges)
    start = 0 if ranges[0][0] <= BEFORE else _next_space(text, ranges[0][0] - BEFORE, ranges[0][0])
    end = len(text) if len(text) - start <= LONGEST_PART else _last_space(text, start, start + LONGEST_PART)
    before, after = CUT * (start > 0), CUT * (end < len(text))
    shift = len(before) - start
    shown = [(low + shift, high + shift) for low, high in ranges if high <= end]
    return HighlightedPart(field, f"{before}{text[start:end]}{after}", shown)


def _next_space(text: str, start: int, end: int) -> int:
    """Return the index after the first space between `start` and `end`, or `start` if no space is there."""
    return text.find(" ", start, end) + 1 or start


def _last_space(text: str, start: int, end: int) -> int:
    """Return the index of the last space between `start` and `end`, or `end` if no space is there."""
    at = text.rfind(" ", start, end)
    return at if at > start else end


def _select_parts(parts: Sequence[tuple[int, HighlightedPart]]) -> list[HighlightedPart]:
    """Return the parts to show: the title, the names and tags that match the largest numbers of clauses, and the
    description.

    Each element of `parts` is a pair: the number of clauses that a part matches, and this part.
    """
    shown: list[HighlightedPart] = []
    for field in ("title", "names", "tags", "description"):
        several = sorted((each for each in parts if each[1].field == field), key=lambda each: -each[0])
        shown += [part for _, part in several[:MAX_VALUES]]
    return shown
