"""Questions as Tantivy's queries: what must match, how much each match counts, and what the caller may see.

A score is a sum of constants, which follow from the question and from the film that it finds. Nothing is counted in it that the caller
may not see: the usual measure, BM25, would tell how frequent a word is in films that are hidden.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from tantivy import FieldType, Occur, Query, Schema

from shared.core.caller import Caller
from shared.search.fields import ALL
from shared.search.question import Clause, Phrase, Question, Word
from shared.videos.tags import folded

WEIGHTS: Mapping[str, float] = {"title": 8.0, "names": 5.0, "tags": 4.0, "description": 2.0, "captions": 1.0}
"""How much a word counts by where it stands."""
_EXACT, _PREFIX, _TYPO, _PREFIX_TYPO = 1.0, 9 / 16, 5 / 16, 5 / 32
"""How much it counts by how well it fits."""
_AGAIN = 1 / 8
"""How much it counts beside where it fits best."""
_ANYWHERE = 2.0
"""How much words count that are alike, and stand elsewhere than in the title."""
_AS_LONG, _ALMOST_AS_LONG = 2.0, 0.5
"""What is added where the title has as many words as the question, and one more: then it may be all of the title."""
_IN_ORDER = 2.0
"""How much words count beside that if they follow each other as in the question."""
_LIKE: Mapping[str, float] = {"title": 2.0, "tags": 3.0, "description": 1.5, "captions": 1.0}
"""How much what two films have in common counts by where it stands."""
_MOST_LOOKED_AT, _MOST_TERMS = 50, 25
"""Words of each text of which it is counted how many films have them, and of those the ones by which alike films are found."""
GRAIN = 256
"""All scores are multiples of 1 / GRAIN: so 32-bit floats add them without rounding, and in whatever order comes to the same."""

Term = tuple[str, str]
"""A field, and a word in it."""


@dataclass(frozen=True)
class Filters:
    """What to keep of what a question finds; None: any."""

    category: str | None = None
    tag: str | None = None
    """In any spelling."""
    user_id: str | None = None
    language: str | None = None
    """As BCP 47 has it; `en` keeps `en-NZ` as well."""
    created_from: int | None = None
    """Epoch seconds; a video of that second is kept."""
    created_before: int | None = None
    """Epoch seconds; a video of that second is not."""


class Asking:
    """A question of somebody at a time, as a query."""

    def __init__(
        self,
        schema: Schema,
        question: Question,
        caller: Caller,
        now: int,
        filters: Filters,
        without: Collection[str] = (),
    ) -> None:
        """`without`: ids of videos that are not asked for."""
        self._schema = schema
        self.is_by_time = not question.clauses
        """Whether everything fits equally well, so that the newest come first."""
        out = [self._fitting_anyhow(clause) for clause in question.excluded]
        if without:
            out.append(Query.term_set_query(schema, "id", list(without)))

        def among(must: Sequence[Query]) -> Query:
            return self._among(must, out, caller, now, filters)

        self.all = among([self._fitting_anyhow(clause) for clause in question.clauses])
        """What is found, for counting it."""
        self.query = self.all
        """The same, with scores by which it is ranked."""
        if question.clauses:
            found = among([self._scored(clause) for clause in question.clauses])
            bonus = [(Occur.Should, query) for query in self._bonus(question)]
            self.query = Query.boolean_query([(Occur.Must, found), *bonus])

    @classmethod
    def others(cls, schema: Schema, video_id: str, caller: Caller, now: int) -> "Asking":
        """The films that the caller may see beside one; `like` says what makes them like it."""
        asking = cls(schema, Question(), caller, now, Filters())
        asking.is_by_time = False
        itself = Query.term_query(schema, "id", video_id)
        asking.all = asking._among((), [itself], caller, now, Filters())
        return asking

    def like(self, terms: Mapping[Term, float]) -> None:
        """Find those that have some of these words, by how much each counts."""
        likes = [Query.const_score_query(self._term(*term), weight) for term, weight in terms.items()]
        self.query = _all([_any(likes), _unscored(self.all)])

    def with_id(self, video_id: str) -> Query:
        """What the question finds of one video."""
        return _all([self.query, _unscored(self._term("id", video_id))])

    def _among(
        self,
        must: Sequence[Query],
        must_not: Sequence[Query],
        caller: Caller,
        now: int,
        filters: Filters,
    ) -> Query:
        kept = [_unscored(query) for query in self._kept(filters)]
        out = [*must_not, *self._hidden(caller, now, filters)]
        return Query.boolean_query(
            [
                *((Occur.Must, query) for query in (*must, *kept) or (Query.all_query(),)),
                *((Occur.MustNot, query) for query in out),
            ]
        )

    def _hidden(self, caller: Caller, now: int, filters: Filters) -> Iterable[Query]:
        """What the caller may not see at this second, or would not be shown by the lists: admins see what is hidden if they
        ask for its owner.

        What is hidden is taken away from what was found, as that is much less to look at than all that can be seen.
        """
        yield self._until("purgeAt", now)
        if filters.user_id is not None and caller.owns(filters.user_id):
            return
        unpublished = _any([self._term("visible", False), self._after("publishAt", now), self._until("expiresAt", now)])
        if caller.subject:
            own = self._term("owner", caller.subject)
            unpublished = Query.boolean_query([(Occur.Must, unpublished), (Occur.MustNot, own)])
        yield unpublished

    def _kept(self, filters: Filters) -> Iterable[Query]:
        """What a film must be besides what is asked for."""
        named = {"owner": filters.user_id, "category": filters.category}
        yield from (self._term(name, value) for name, value in named.items() if value is not None)
        if filters.tag is not None:
            yield self._term("tag", folded(filters.tag))
        if filters.language is not None:
            yield self._term("language", filters.language.lower())
        if filters.created_from is not None or filters.created_before is not None:
            before = None if filters.created_before is None else filters.created_before - 1
            yield Query.range_query(self._schema, "createdAt", FieldType.Integer, filters.created_from, before)

    def _scored(self, clause: Clause) -> Query:
        """What has a word or a phrase in any text; what fits best counts."""
        fits = self._phrase(clause.texts) if isinstance(clause, Phrase) else self._word(clause)
        return Query.disjunction_max_query(list(fits), tie_breaker=_AGAIN)

    def _phrase(self, texts: Sequence[str]) -> Iterable[Query]:
        for name, weight in WEIGHTS.items():
            phrase = Query.phrase_query(self._schema, name, list(texts))
            yield Query.const_score_query(phrase, weight * _EXACT * len(texts))

    def _word(self, word: Word) -> Iterable[Query]:
        for name, weight in WEIGHTS.items():
            yield Query.const_score_query(self._term(name, word.text), weight * _EXACT)
        # To find the words that are alike takes the most of all, so it is not done for each text.
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

    def _fitting_anyhow(self, clause: Clause) -> Query:
        """The same without scores, with as few looks at all words of the index as can be."""
        if isinstance(clause, Phrase):
            return _any([Query.phrase_query(self._schema, name, list(clause.texts)) for name in WEIGHTS])
        fits = []
        if clause.is_prefix:
            fits.append(self._fuzzy(ALL, clause.text, clause.prefix_typos, prefix=True))
        if clause.typos > clause.prefix_typos or (clause.typos and not clause.is_prefix):
            fits.append(self._fuzzy(ALL, clause.text, clause.typos))
        if clause.may_lack_letter:
            fits.append(self._lacking(ALL, clause.text))
        return _any([self._term(ALL, clause.text), *fits])

    def _bonus(self, question: Question) -> Iterable[Query]:
        """What makes a film that was found come first, and finds none by itself."""
        count = len(question.words)
        yield Query.const_score_query(self._term("length", count), _AS_LONG)
        yield Query.const_score_query(self._term("length", count + 1), _ALMOST_AS_LONG)
        if count > 1:
            for name, weight in WEIGHTS.items():
                phrase = Query.phrase_query(self._schema, name, list(question.words))
                yield Query.const_score_query(phrase, weight * _IN_ORDER)

    def _term(self, name: str, value: str | int | bool) -> Query:
        return Query.term_query(self._schema, name, value)

    def _fuzzy(self, name: str, text: str, typos: int, *, prefix: bool = False) -> Query:
        return Query.fuzzy_term_query(self._schema, name, text, typos, True, prefix)

    def _lacking(self, name: str, text: str) -> Query:
        # A word is letters and digits: none of them means anything else to the pattern.
        patterns = [f"{text[:at]}.{text[at:]}" for at in range(len(text) + 1)]
        return Query.regex_query(self._schema, name, "|".join(patterns))

    def _until(self, name: str, time: int) -> Query:
        return self._by_terms(name, None, time)

    def _after(self, name: str, time: int) -> Query:
        return self._by_terms(name, time + 1, None)

    def _by_terms(self, name: str, lower: int | None, upper: int | None) -> Query:
        # Few films have such a time, and fewer one that counts: the terms lead to them without a look at all films.
        return Query.range_query(self._schema, name, FieldType.Integer, lower, upper, use_inverted_index=True)


def candidates(texts: Mapping[str, Sequence[str]]) -> dict[Term, int]:
    """The words of a film that may tell it apart, and how often it has them: of each field those that take most of its text.

    `texts` are its words by field, with spaces between them. Long words are preferred, as short ones are in every film.
    """
    found: dict[Term, int] = {}
    for name in _LIKE:
        counts = Counter(word for text in texts.get(name, ()) for word in text.split())
        likely = sorted(counts, key=lambda word: (-counts[word] * len(word), word))
        found.update(((name, word), counts[word]) for word in likely[:_MOST_LOOKED_AT])
    return found


def telling(said: Mapping[Term, int], films: Mapping[Term, int], all_films: int) -> dict[Term, float]:
    """Those of a film's words that tell it apart best, and how much each counts to find films like it.

    `said`: how often the film says it; `films`: how many others have it, of `all_films` that the caller may see.
    """
    # Words that one film in five has say little; in a small catalogue, hardly any word is so frequent by chance.
    most = max(all_films // 5, 20)
    rarity = {term: round(16 * log2(1 + all_films / count)) / 16 for term, count in films.items() if 0 < count <= most}
    chosen: dict[Term, float] = {}
    for name, weight in _LIKE.items():
        of_field = sorted(
            (term for term in rarity if term[0] == name), key=lambda term: (-said[term] * rarity[term], term)
        )
        chosen.update((term, weight * rarity[term]) for term in of_field[:_MOST_TERMS])
    return chosen


def _unscored(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


def _any(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _all(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Must, query) for query in queries])
