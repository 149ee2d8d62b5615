"""Query trees: the matching, scoring, filters and visibility of a search. Each engine translates a query tree into its
own queries.

A score is a sum of constants that depend only on the query and the matching video. BM25 is not used, because its
document frequencies would reveal words of hidden videos.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from shared.core.caller import Caller
from shared.search.query_parser import Clause, QueryPhrase, QueryWord, SearchQuery
from shared.videos.tags import normalise_tag

ALL = "words"
"""Name of the field that contains every distinct word of all texts."""
WEIGHTS: Mapping[str, float] = {"title": 8.0, "names": 5.0, "tags": 4.0, "description": 2.0, "captions": 1.0}
"""Weight of a matching word, by field."""
_EXACT, _PREFIX, _TYPO, _PREFIX_TYPO = 1.0, 9 / 16, 5 / 16, 5 / 32
"""Factors by which a field's weight is multiplied, for each kind of match."""
REPEATED = 1 / 8
"""Factor for a word that matches in several fields. The word's score is the score of the best field, plus this factor
times the sum of the scores of the other fields."""
_ANYWHERE = 2.0
"""Weight of a word that matches with typos or as a prefix in any field except the title."""
_AS_LONG, _ALMOST_AS_LONG = 2.0, 0.5
"""Scores that are added if the title has exactly as many words as the query (_AS_LONG), or one word more
(_ALMOST_AS_LONG). The query may then be the full title."""
_IN_ORDER = 2.0
"""If the query's words occur consecutively in a field, the field's weight times this factor is added to the score."""
_LIKE: Mapping[str, float] = {"title": 2.0, "tags": 3.0, "description": 1.5, "captions": 1.0}
"""Weight of a word that two similar videos share, by field."""
_MAX_COUNTED, _MAX_TERMS = 50, 25
"""Limits of the query for similar videos. In each field, document frequencies are computed for at most _MAX_COUNTED
words, and the query contains at most _MAX_TERMS of these words."""
GRAIN = 256
"""Denominator of scores. All scores are multiples of 1 / GRAIN, so that sums of 32-bit floats are exact in any
order."""

Term = tuple[str, str]
"""A field name and a word."""


@dataclass(frozen=True)
class SearchFilters:
    """Filters on the results of a query. A filter that is `None` matches all videos."""

    category: str | None = None
    tag: str | None = None
    """Tag, compared after case folding."""
    user_id: str | None = None
    language: str | None = None
    """Language tag (BCP 47). `en` also matches `en-NZ`."""
    created_from: int | None = None
    """Earliest time of creation, in epoch seconds."""
    created_before: int | None = None
    """Latest time of creation, in epoch seconds, exclusive."""


class TermQuery(NamedTuple):
    """Videos with this value of a field. In a field of words, the value is one word."""

    field: str
    value: str | int | bool


class IdsQuery(NamedTuple):
    """Videos with these ids."""

    ids: Sequence[str]


class RangeQuery(NamedTuple):
    """Videos with a number from `first` to `last`, both inclusive. `None` sets no bound."""

    field: str
    first: int | None
    last: int | None


class FuzzyQuery(NamedTuple):
    """Videos with a word that differs from `text` by at most `typos`. With `is_prefix`, the start of a word suffices."""

    field: str
    text: str
    typos: int
    is_prefix: bool = False


class LongerQuery(NamedTuple):
    """Videos with a word that consists of `text` and one additional letter or digit, at any position."""

    field: str
    text: str

    @property
    def pattern(self) -> str:
        """Regular expression of these words. Words contain only letters and digits, so they need no escaping."""
        return "|".join(f"{self.text[:at]}.{self.text[at:]}" for at in range(len(self.text) + 1))


class PhraseQuery(NamedTuple):
    """Videos with these words consecutively in one text of a field."""

    field: str
    texts: Sequence[str]


class ConstantScore(NamedTuple):
    """Videos that match a query, all with the same score."""

    query: "QueryTree"
    score: float


class BestOf(NamedTuple):
    """Videos that match any of the queries. A video's score is the best of its scores from these queries, plus REPEATED
    times the sum of its other scores."""

    queries: Sequence["QueryTree"]


class AnyOf(NamedTuple):
    """Videos that match any of the queries. The score is the sum of the scores of the matching queries."""

    queries: Sequence["QueryTree"]


class AllOf(NamedTuple):
    """Videos that match every query in `must` and none in `must_not`. The score is the sum of the scores of all
    matching queries.

    Queries in `should` only add their scores. All videos match an empty `must`.
    """

    must: Sequence["QueryTree"]
    must_not: Sequence["QueryTree"] = ()
    should: Sequence["QueryTree"] = ()


QueryTree = (
    TermQuery | IdsQuery | RangeQuery | FuzzyQuery | LongerQuery | PhraseQuery | ConstantScore | BestOf | AnyOf | AllOf
)


class IndexQuery:
    """Query trees that are built from a caller's parsed query."""

    def __init__(
        self,
        search_query: SearchQuery,
        caller: Caller,
        now: int,
        filters: SearchFilters,
        without: Collection[str] = (),
    ) -> None:
        """Build the queries. `without` contains the ids of videos to exclude."""
        self.is_by_time = not search_query.clauses
        """Whether the query has no words. All results then have the same score, and are sorted by creation time, newest
        first."""
        out: list[QueryTree] = [self._unscored_clause(clause) for clause in search_query.excluded]
        if without:
            out.append(IdsQuery(list(without)))

        def among(must: Sequence[QueryTree]) -> QueryTree:
            return self._restrict(must, out, caller, now, filters)

        self.all = among([self._unscored_clause(clause) for clause in search_query.clauses])
        """Query without scores, for totals and facets."""
        self.query = self.all
        """Query with scores, for ranking."""
        if search_query.clauses:
            found = among([self._scored(clause) for clause in search_query.clauses])
            self.query = AllOf([found], should=list(self._bonus(search_query)))

    @classmethod
    def excluding(cls, video_id: str, caller: Caller, now: int) -> "IndexQuery":
        """Return a query that matches all videos that the caller may see, except `video_id`.

        Call `like` next to set the scores.
        """
        query = cls(SearchQuery(), caller, now, SearchFilters())
        query.is_by_time = False
        query.all = query._restrict((), [TermQuery("id", video_id)], caller, now, SearchFilters())
        return query

    def like(self, terms: Mapping[Term, float]) -> None:
        """Restrict the results to videos that contain any of these terms. A matching term adds its weight to the
        score."""
        likes = [ConstantScore(TermQuery(*term), weight) for term, weight in terms.items()]
        self.query = AllOf([AnyOf(likes), _unscored(self.all)])

    def with_id(self, video_id: str) -> QueryTree:
        """Return the query restricted to one video."""
        return AllOf([self.query, _unscored(TermQuery("id", video_id))])

    def _restrict(
        self,
        must: Sequence[QueryTree],
        must_not: Sequence[QueryTree],
        caller: Caller,
        now: int,
        filters: SearchFilters,
    ) -> QueryTree:
        filtering = [_unscored(query) for query in self._filter_clauses(filters)]
        return AllOf([*must, *filtering], [*must_not, *self._hidden(caller, now, filters)])

    def _hidden(self, caller: Caller, now: int, filters: SearchFilters) -> Iterable[QueryTree]:
        """Yield queries for the videos that the caller may not see at `now`. `_restrict` excludes these videos.

        Admins also see another user's hidden videos, but only if they filter by that user. The queries are exclusions,
        because it is much cheaper to test each match than to enumerate all visible videos.
        """
        yield RangeQuery("purgeAt", None, now)
        if filters.user_id is not None and caller.owns(filters.user_id):
            return
        unpublished = AnyOf(
            [TermQuery("visible", False), RangeQuery("publishAt", now + 1, None), RangeQuery("expiresAt", None, now)]
        )
        yield AllOf([unpublished], [TermQuery("owner", caller.subject)]) if caller.subject else unpublished

    def _filter_clauses(self, filters: SearchFilters) -> Iterable[QueryTree]:
        """Yield a query for each filter that is not `None`."""
        named = {"owner": filters.user_id, "category": filters.category}
        yield from (TermQuery(name, value) for name, value in named.items() if value is not None)
        if filters.tag is not None:
            yield TermQuery("tag", normalise_tag(filters.tag))
        if filters.language is not None:
            yield TermQuery("language", filters.language.lower())
        if filters.created_from is not None or filters.created_before is not None:
            before = None if filters.created_before is None else filters.created_before - 1
            yield RangeQuery("createdAt", filters.created_from, before)

    def _scored(self, clause: Clause) -> QueryTree:
        """Return a scored query for a word or phrase in any field.

        The score is the score of the best field, plus a fraction of the scores of the other fields.
        """
        fits = self._phrase(clause.texts) if isinstance(clause, QueryPhrase) else self._word(clause)
        return BestOf(list(fits))

    def _phrase(self, texts: Sequence[str]) -> Iterable[QueryTree]:
        for name, weight in WEIGHTS.items():
            yield ConstantScore(PhraseQuery(name, texts), weight * _EXACT * len(texts))

    def _word(self, word: QueryWord) -> Iterable[QueryTree]:
        for name, weight in WEIGHTS.items():
            yield ConstantScore(TermQuery(name, word.text), weight * _EXACT)
        # Fuzzy matching is the most expensive step, so it covers the title and the combined field instead of every
        # field.
        for name, weight in {"title": WEIGHTS["title"], ALL: _ANYWHERE}.items():
            if word.is_prefix:
                yield ConstantScore(FuzzyQuery(name, word.text, 0, is_prefix=True), weight * _PREFIX)
            if word.typos:
                yield ConstantScore(FuzzyQuery(name, word.text, word.typos), weight * _TYPO)
            if word.may_lack_letter:
                yield ConstantScore(LongerQuery(name, word.text), weight * _TYPO)
            if word.prefix_typos:
                likely = FuzzyQuery(name, word.text, word.prefix_typos, is_prefix=True)
                yield ConstantScore(likely, weight * _PREFIX_TYPO)

    def _unscored_clause(self, clause: Clause) -> QueryTree:
        """Return an unscored query for a word or phrase in any field.

        It needs fewer scans of the term dictionary than the query that `_scored` returns.
        """
        if isinstance(clause, QueryPhrase):
            return AnyOf([PhraseQuery(name, clause.texts) for name in WEIGHTS])
        fits: list[QueryTree] = []
        if clause.is_prefix:
            fits.append(FuzzyQuery(ALL, clause.text, clause.prefix_typos, is_prefix=True))
        if clause.typos > clause.prefix_typos or (clause.typos and not clause.is_prefix):
            fits.append(FuzzyQuery(ALL, clause.text, clause.typos))
        if clause.may_lack_letter:
            fits.append(LongerQuery(ALL, clause.text))
        return AnyOf([TermQuery(ALL, clause.text), *fits])

    def _bonus(self, search_query: SearchQuery) -> Iterable[QueryTree]:
        """Yield optional queries, which raise the scores of matching videos but do not add results."""
        count = len(search_query.words)
        yield ConstantScore(TermQuery("length", count), _AS_LONG)
        yield ConstantScore(TermQuery("length", count + 1), _ALMOST_AS_LONG)
        if count > 1:
            for name, weight in WEIGHTS.items():
                yield ConstantScore(PhraseQuery(name, search_query.words), weight * _IN_ORDER)


def candidates(texts: Mapping[str, Sequence[str]]) -> dict[Term, int]:
    """Return the possibly distinctive words of a video, with the count of each word.

    `texts` contains space-separated words by field. In each field, chooses the words with the highest values of count
    times length. The length matters because short words occur in every video.
    """
    found: dict[Term, int] = {}
    for name in _LIKE:
        counts = Counter(word for text in texts.get(name, ()) for word in text.split())
        likely = sorted(counts, key=lambda word: (-counts[word] * len(word), word))
        found.update(((name, word), counts[word]) for word in likely[:_MAX_COUNTED])
    return found


def distinctive_terms(
    term_counts: Mapping[Term, int], frequencies: Mapping[Term, int], total: int
) -> dict[Term, float]:
    """Return the most distinctive terms of a video, with their weights in a search for similar videos.

    `term_counts` has the count of each term in this video. `frequencies` has the number of videos that contain each
    term, among the `total` videos that the caller may see.
    """
    # Words in more than 20 % of the videos are not distinctive. The minimum of 20 serves small catalogues.
    most = max(total // 5, 20)
    rarity = {
        term: round(16 * log2(1 + total / count)) / 16 for term, count in frequencies.items() if 0 < count <= most
    }
    chosen: dict[Term, float] = {}
    for name, weight in _LIKE.items():
        of_field = sorted(
            (term for term in rarity if term[0] == name), key=lambda term: (-term_counts[term] * rarity[term], term)
        )
        chosen.update((term, weight * rarity[term]) for term in of_field[:_MAX_TERMS])
    return chosen


def _unscored(query: QueryTree) -> QueryTree:
    return ConstantScore(query, 0.0)
