"""Parser of search queries: converts user input to clauses that a video must or must not match.

Tantivy's own parser never reads user input, so its operators are plain text here.
"""

import re
from dataclasses import dataclass
from itertools import chain

from shared.core.errors import InvalidParameter
from shared.core.text import BREAKS
from shared.search.tokenizer import ONE_TYPO, Token, distance, prefix_distance, tokens, typos_allowed

LONGEST = 256
"""Maximum number of characters of a query."""
MAX_CLAUSES = 32
"""Maximum number of words and phrases of a query. This is enough for a pasted sentence."""
SHORTEST_PREFIX_WITH_TYPO = 6
"""Minimum number of letters of an incomplete word that may have a typo. Shorter prefixes would match too many words."""

_OPENING, _CLOSING = '"\u201c\u201e\u00ab\u300c\u300e', '"\u201d\u201c\u00bb\u300d\u300f'
_PART = re.compile(rf'(?P<minus>-+)?(?:[{_OPENING}](?P<phrase>[^{_CLOSING}]*)(?P<closed>[{_CLOSING}]?)|(?P<word>[^\s{_OPENING}]+))')  # fmt: skip

EXACT, PREFIX, TYPO, PREFIX_TYPO = 4, 3, 2, 1
"""Quality of a match: exact, by prefix, with typos, or by prefix with typos. Higher is better."""


@dataclass(frozen=True)
class QueryWord:
    """Word of a query. The last word of a query may be incomplete, and then matches as a prefix."""

    text: str
    typos: int = 0
    """Maximum number of typos."""
    may_lack_letter: bool = False
    """Whether the word also matches words that have one letter more. True for words of ONE_TYPO - 1 letters, in which
    no other typo is allowed."""
    is_prefix: bool = False
    prefix_typos: int = 0
    """Maximum number of typos in the prefix. 0 unless `is_prefix`."""

    def fit(self, word: str, *, forgiving: bool = True) -> int:
        """Return the quality of the match with `word`: EXACT, PREFIX, TYPO or PREFIX_TYPO, or 0 if it does not match.

        If `forgiving` is false, typos are not allowed.
        """
        if word == self.text:
            return EXACT
        if self.is_prefix and word.startswith(self.text):
            return PREFIX
        if not forgiving:
            return 0
        if self.may_lack_letter and len(word) == ONE_TYPO and distance(self.text, word, 1) == 1:
            return TYPO
        if self.typos and distance(self.text, word, self.typos) <= self.typos:
            return TYPO
        if self.prefix_typos and prefix_distance(self.text, word, self.prefix_typos) <= self.prefix_typos:
            return PREFIX_TYPO
        return 0


@dataclass(frozen=True)
class QueryPhrase:
    """Phrase of a query: words that must occur consecutively, without typos."""

    texts: tuple[str, ...]


Clause = QueryWord | QueryPhrase


@dataclass(frozen=True)
class SearchQuery:
    """Parsed query: clauses that must all match, and clauses that must not match. A query without clauses matches all
    videos."""

    clauses: tuple[Clause, ...] = ()
    """Clauses that must match, without duplicates."""
    excluded: tuple[Clause, ...] = ()
    words: tuple[str, ...] = ()
    """Words of all clauses that must match, in the order of the query."""
    is_open: bool = False
    """Whether the last word may be incomplete, because the user may still be typing it."""


def parse(q: str) -> SearchQuery:
    """Return the query that the user typed, in parsed form. Raises InvalidParameter.

    The last word may be incomplete unless a space follows. An unclosed quote extends to the end.
    """
    if len(q) > LONGEST or re.search(f"[{BREAKS}]", q):
        raise InvalidParameter.named("q", f"must have at most {LONGEST} characters and no control characters")
    clauses: list[Clause] = []
    excluded: list[Clause] = []
    for part in _PART.finditer(q):
        is_phrase = part["word"] is None
        found = tokens(part["phrase"] if is_phrase else part["word"])
        if not found:
            continue
        if part["minus"]:
            excluded.append(_together(found))
        elif is_phrase and part["closed"]:
            clauses.append(_together(found))
        else:
            clauses += _typed(found, is_phrase=is_phrase, is_last=part.end() == len(q))
    texts = ((clause.text,) if isinstance(clause, QueryWord) else clause.texts for clause in clauses)
    search_query = SearchQuery(
        tuple(dict.fromkeys(clauses)),
        tuple(dict.fromkeys(excluded)),
        tuple(chain(*texts)),
        is_open=bool(clauses) and isinstance(clauses[-1], QueryWord) and clauses[-1].is_prefix,
    )
    if len(search_query.clauses) + len(search_query.excluded) > MAX_CLAUSES:
        raise InvalidParameter.named("q", f"must have at most {MAX_CLAUSES} words and phrases")
    if not clauses:
        raise InvalidParameter.named(
            "q", "must have a word to search for" + ", not only excluded words" * bool(excluded)
        )
    return search_query


def _together(found: list[Token]) -> Clause:
    """Return a clause that matches these tokens exactly and consecutively."""
    texts = _phrase_words(found)
    if len(texts) > 1:
        return QueryPhrase(texts)
    # In scripts without spaces, texts are indexed as pairs of characters. A single character matches the start of a
    # pair.
    return QueryWord(texts[0], is_prefix=found[-1].run and len(texts[0]) == 1)


def _typed(found: list[Token], *, is_phrase: bool, is_last: bool) -> list[Clause]:
    """Return the clauses for tokens that the user may still be typing.

    Words outside of phrases may have typos, and the last word of the query may be incomplete. The last word of a phrase
    without a closing quote is a separate clause, because it may be incomplete.
    """
    if is_phrase and is_last and len(found) > 1 and not found[-1].run:
        return [_together(found[:-1]), _word(found[-1], is_last=True)]
    if is_phrase:
        return [_together(found)]
    clauses: list[Clause] = []
    run: list[Token] = []
    for token in found:
        # Overlapping tokens of a run form one phrase.
        if run and not (token.run and token.start < run[-1].end):
            clauses.append(_together(run))
            run = []
        if token.run:
            run.append(token)
        else:
            clauses.append(_word(token, is_last=is_last and token is found[-1]))
    return [*clauses, _together(run)] if run else clauses


def _word(token: Token, *, is_last: bool) -> QueryWord:
    typos = typos_allowed(token.word)
    return QueryWord(
        token.word,
        typos,
        may_lack_letter=len(token.word) == ONE_TYPO - 1 and not token.word.isdigit(),
        is_prefix=is_last,
        prefix_typos=1 if is_last and typos and len(token.word) >= SHORTEST_PREFIX_WITH_TYPO else 0,
    )


def _phrase_words(found: list[Token]) -> tuple[str, ...]:
    """Return the words of a phrase's tokens. Omits the last token if it is the last character of a longer run without
    spaces.

    The tokens of such a run are pairs of characters, and then the last character alone (see `tokens`). In a video's
    text, another character may follow. The video then has a token for the pair of both characters, but none for the
    first of them alone.
    """
    ends_run = len(found) > 1 and found[-1].run and found[-2].run and found[-1].end == found[-2].end
    return tuple(token.word for token in (found[:-1] if ends_run else found))
