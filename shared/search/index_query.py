"""Translation of parsed queries into Tantivy queries: matching, scoring, filters and visibility.

A score is a sum of constants that depend only on the query and the matching video. BM25 is not used, because its
document frequencies would reveal words of hidden videos.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from tantivy import FieldType, Occur, Query, Schema

from shared.core.caller import Caller
from shared.search.fields import ALL
from shared.search.query_parser import Clause, QueryPhrase, QueryWord, SearchQuery
from shared.videos.tags import normalise_tag

WEIGHTS: Mapping[str, float] = {"title": 8.0, "names": 5.0, "tags": 4.0, "description": 2.0, "captions": 1.0}
"""Weight of a matching word, by field."""
_EXACT, _PREFIX, _TYPO, _PREFIX_TYPO = 1.0, 9 / 16, 5 / 16, 5 / 32
"""Factors by which a field's weight is multiplied, for each kind of match."""
_REPEATED = 1 / 8
"""Factor for the scores of a word that matches in several fields. They are multiplied by it and added to the best
field's score."""
_ANYWHERE = 2.0
"""Weight of a word that matches with typos or as a prefix in any field except the title."""
_AS_LONG, _ALMOST_AS_LONG = 2.0, 0.5
"""Score that is added if the title has exactly as many words as the query, or one word more. The query may then be the
full title."""
_IN_ORDER = 2.0
"""Factor of a field's weight. The product is added to the score if the query's words occur consecutively in the
field."""
_LIKE: Mapping[str, float] = {"title": 2.0, "tags": 3.0, "description": 1.5, "captions": 1.0}
"""Weight of a word that two similar videos share, by field."""
_MAX_COUNTED, _MAX_TERMS = 50, 25
"""Maximum number of words per field with a computed document frequency, and maximum number of them in the query for
similar videos."""
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


class IndexQuery:
    """Tantivy queries that are built from a caller's parsed query."""

    def __init__(
        self,
        schema: Schema,
        search_query: SearchQuery,
        caller: Caller,
        now: int,
        filters: SearchFilters,
        without: Collection[str] = (),
    ) -> None:
        """Build the queries. `without` contains the ids of videos to exclude."""
        self._schema = schema
        self.is_by_time = not search_query.clauses
        """Whether the query has no words. All results then have the same score, and are sorted by creation time, newest
        first."""
        out = [self._unscored_clause(clause) for clause in search_query.excluded]
        if without:
            out.append(Query.term_set_query(schema, "id", list(without)))

        def among(must: Sequence[Query]) -> Query:
            return self._restrict(must, out, caller, now, filters)

        self.all = among([self._unscored_clause(clause) for clause in search_query.clauses])
        """Query without scores, for totals and facets."""
        self.query = self.all
        """Query with scores, for ranking."""
        if search_query.clauses:
            found = among([self._scored(clause) for clause in search_query.clauses])
            bonus = [(Occur.Should, query) for query in self._bonus(search_query)]
            self.query = Query.boolean_query([(Occur.Must, found), *bonus])

    @classmethod
    def excluding(cls, schema: Schema, video_id: str, caller: Caller, now: int) -> "IndexQuery":
        """Return a query that matches all videos that the caller may see, except `video_id`.

        Call `like` next to set the scores.
        """
        query = cls(schema, SearchQuery(), caller, now, SearchFilters())
        query.is_by_time = False
        itself = Query.term_query(schema, "id", video_id)
        query.all = query._restrict((), [itself], caller, now, SearchFilters())
        return query

    def like(self, terms: Mapping[Term, float]) -> None:
        """Restrict the results to videos that contain any of these terms. A matching term adds its weight to the
        score."""
        likes = [Query.const_score_query(self._term(*term), weight) for term, weight in terms.items()]
        self.query = _all([_any(likes), _unscored(self.all)])

    def with_id(self, video_id: str) -> Query:
        """Return the query restricted to one video."""
        return _all([self.query, _unscored(self._term("id", video_id))])

    def _restrict(
        self,
        must: Sequence[Query],
        must_not: Sequence[Query],
        caller: Caller,
        now: int,
        filters: SearchFilters,
    ) -> Query:
        filtering = [_unscored(query) for query in self._filter_clauses(filters)]
        out = [*must_not, *self._hidden(caller, now, filters)]
        return Query.boolean_query(
            [
                *((Occur.Must, query) for query in (*must, *filtering) or (Query.all_query(),)),
                *((Occur.MustNot, query) for query in out),
            ]
        )

    def _hidden(self, caller: Caller, now: int, filters: SearchFilters) -> Iterable[Query]:
        """Yield queries that match videos that the caller may not see at `now`, so that they can be excluded.

        Admins also see another user's hidden videos, but only if they filter by that user. The queries are exclusions,
        because it is much cheaper to test each match than to enumerate all visible videos.
        """
        yield self._until("purgeAt", now)
        if filters.user_id is not None and caller.owns(filters.user_id):
            return
        unpublished = _any([self._term("visible", False), self._after("publishAt", now), self._until("expiresAt", now)])
        if caller.subject:
            own = self._term("owner", caller.subject)
            unpublished = Query.boolean_query([(Occur.Must, unpublished), (Occur.MustNot, own)])
        yield unpublished

    def _filter_clauses(self, filters: SearchFilters) -> Iterable[Query]:
        """Yield a query for each filter that is not `None`."""
        named = {"owner": filters.user_id, "category": filters.category}
        yield from (self._term(name, value) for name, value in named.items() if value is not None)
        if filters.tag is not None:
            yield self._term("tag", normalise_tag(filters.tag))
        if filters.language is not None:
            yield self._term("language", filters.language.lower())
        if filters.created_from is not None or filters.created_before is not None:
            before = None if filters.created_before is None else filters.created_before - 1
            yield Query.range_query(self._schema, "createdAt", FieldType.Integer, filters.created_from, before)

    def _scored(self, clause: Clause) -> Query:
        """Return a scored query for a word or phrase in any field.

        The score is the score of the best field, plus a fraction of the scores of the other fields.
        """
        fits = self._phrase(clause.texts) if isinstance(clause, QueryPhrase) else self._word(clause)
        return Query.disjunction_max_query(list(fits), tie_breaker=_REPEATED)

    def _phrase(self, texts: Sequence[str]) -> Iterable[Query]:
        for name, weight in WEIGHTS.items():
            phrase = Query.phrase_query(self._schema, name, list(texts))
            yield Query.const_score_query(phrase, weight * _EXACT * len(texts))

    def _word(self, word: QueryWord) -> Iterable[Query]:
        for name, weight in WEIGHTS.items():
            yield Query.const_score_query(self._term(name, word.text), weight * _EXACT)
        # Fuzzy matching is the most expensive step, so it covers the title and the combined field instead of every
        # field.
        for name, weight in {"title": WEIGHTS["title"], ALL: _ANYWHERE}.items():
            if word.is_prefix:
                yield Query.const_score_query(self._fuzzy(name, word.text, 0, prefix=True), weight * _PREFIX)
            if word.typos:
                yield Query.const_score_query(self._fuzzy(name, word.text, word.typos), weight * _TYPO)
            if word.may_lack_letter:
                yield Query.const_score_query(self._lacking(name, word.text), weight * _TYPO)
            if word.prefix_typos:
                likely = self._fuzzy(name, word.text, word.prefix_typos, prefix=True)
                yield Query.const_score_query(likely, weight * _PREFIX_TYPO)

    def _unscored_clause(self, clause: Clause) -> Query:
        """Return an unscored query for a word or phrase in any field.

        It needs fewer scans of the term dictionary than the query that `_scored` returns.
        """
        if isinstance(clause, QueryPhrase):
            return _any([Query.phrase_query(self._schema, name, list(clause.texts)) for name in WEIGHTS])
        fits = []
        if clause.is_prefix:
            fits.append(self._fuzzy(ALL, clause.text, clause.prefix_typos, prefix=True))
        if clause.typos > clause.prefix_typos or (clause.typos and not clause.is_prefix):
            fits.append(self._fuzzy(ALL, clause.text, clause.typos))
        if clause.may_lack_letter:
            fits.append(self._lacking(ALL, clause.text))
        return _any([self._term(ALL, clause.text), *fits])

    def _bonus(self, search_query: SearchQuery) -> Iterable[Query]:
        """Yield optional queries, which raise the scores of matching videos but do not add results."""
        count = len(search_query.words)
        yield Query.const_score_query(self._term("length", count), _AS_LONG)
        yield Query.const_score_query(self._term("length", count + 1), _ALMOST_AS_LONG)
        if count > 1:
            for name, weight in WEIGHTS.items():
                phrase = Query.phrase_query(self._schema, name, list(search_query.words))
                yield Query.const_score_query(phrase, weight * _IN_ORDER)

    def _term(self, name: str, value: str | int | bool) -> Query:
        return Query.term_query(self._schema, name, value)

    def _fuzzy(self, name: str, text: str, typos: int, *, prefix: bool = False) -> Query:
        return Query.fuzzy_term_query(self._schema, name, text, typos, True, prefix)

    def _lacking(self, name: str, text: str) -> Query:
        # Words contain only letters and digits, so they need no escaping in the pattern.
        patterns = [f"{text[:at]}.{text[at:]}" for at in range(len(text) + 1)]
        return Query.regex_query(self._schema, name, "|".join(patterns))

    def _until(self, name: str, time: int) -> Query:
        return self._by_terms(name, None, time)

    def _after(self, name: str, time: int) -> Query:
        return self._by_terms(name, time + 1, None)

    def _by_terms(self, name: str, lower: int | None, upper: int | None) -> Query:
        # Few videos have this timestamp. The inverted index finds them without a scan of all videos.
        return Query.range_query(self._schema, name, FieldType.Integer, lower, upper, use_inverted_index=True)


def candidates(texts: Mapping[str, Sequence[str]]) -> dict[Term, int]:
    """Return the words of a video that may be distinctive, with their counts.

    `texts` contains space-separated words by field. Chooses the words of each field that have the highest product of
    count and length, because short words occur in every video.
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


def _unscored(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


def _any(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _all(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Must, query) for query in queries])
