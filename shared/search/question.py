"""Questions: what people type, as clauses that a film must or must not have.

Nothing of a question is ever read by Tantivy's own parser: operators of other engines are plain text here.
"""

import re
from dataclasses import dataclass
from itertools import chain

from shared.core.errors import InvalidParameter
from shared.core.text import BREAKS
from shared.search.words import ONE_TYPO, Token, distance, prefix_distance, tokens, typos_allowed

LONGEST = 256
"""Characters of a question."""
MOST_CLAUSES = 32
"""Words and phrases of a question: as many as a sentence of a film has that somebody pastes."""
SHORTEST_PREFIX_WITH_TYPO = 6
"""Letters from which on what is typed of a word may have one typo; shorter ones would be the start of too many words."""

_OPENING, _CLOSING = '"\u201c\u201e\u00ab\u300c\u300e', '"\u201d\u201c\u00bb\u300d\u300f'
_PART = re.compile(rf'(?P<minus>-+)?(?:[{_OPENING}](?P<phrase>[^{_CLOSING}]*)(?P<closed>[{_CLOSING}]?)|(?P<word>[^\s{_OPENING}]+))')  # fmt: skip

EXACT, PREFIX, TYPO, PREFIX_TYPO = 4, 3, 2, 1
"""How well a word of a film fits one of a question, the best first."""


@dataclass(frozen=True)
class Word:
    """A word that a film has, perhaps with typos; or, while it is typed, a word that begins so."""

    text: str
    typos: int = 0
    """How many it may have."""
    may_lack_letter: bool = False
    """Whether it may be a word of ONE_TYPO letters without one of them, which is too short to have any other typo."""
    is_prefix: bool = False
    prefix_typos: int = 0
    """How many may be in the start of a word, where `is_prefix`."""

    def fit(self, word: str, *, forgiving: bool = True) -> int:
        """EXACT, PREFIX, TYPO or PREFIX_TYPO, or 0 if the word of a film is another; without typos unless `forgiving`."""
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
class Phrase:
    """Words that follow each other, exactly so."""

    texts: tuple[str, ...]


Clause = Word | Phrase


@dataclass(frozen=True)
class Question:
    """What a film must have, all of it, and what it must not have any of. One without clauses asks for every film."""

    clauses: tuple[Clause, ...] = ()
    """Each once."""
    excluded: tuple[Clause, ...] = ()
    words: tuple[str, ...] = ()
    """All words that are asked for, as they follow each other."""
    is_open: bool = False
    """Whether the last of them may still be typed."""


def parse(q: str) -> Question:
    """A question as it was typed; raises InvalidParameter.

    Its last word is one that may still be typed, unless a space follows. A quote that is not closed goes to the end.
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
    texts = ((clause.text,) if isinstance(clause, Word) else clause.texts for clause in clauses)
    question = Question(
        tuple(dict.fromkeys(clauses)),
        tuple(dict.fromkeys(excluded)),
        tuple(chain(*texts)),
        is_open=bool(clauses) and isinstance(clauses[-1], Word) and clauses[-1].is_prefix,
    )
    if len(question.clauses) + len(question.excluded) > MOST_CLAUSES:
        raise InvalidParameter.named("q", f"must have at most {MOST_CLAUSES} words and phrases")
    if not clauses:
        raise InvalidParameter.named(
            "q", "must have a word to look for" + " beside those to leave out" * bool(excluded)
        )
    return question


def _together(found: list[Token]) -> Clause:
    """The tokens as they stand, without typos."""
    texts = _as_asked(found)
    if len(texts) > 1:
        return Phrase(texts)
    # One character of a run is the start of a pair.
    return Word(texts[0], is_prefix=found[-1].run and len(texts[0]) == 1)


def _typed(found: list[Token], *, is_phrase: bool, is_last: bool) -> list[Clause]:
    """Words that may have typos, and of which the last may not be whole; or a phrase that is still typed."""
    if is_phrase and is_last and len(found) > 1 and not found[-1].run:
        return [_together(found[:-1]), _word(found[-1], is_last=True)]
    if is_phrase:
        return [_together(found)]
    clauses: list[Clause] = []
    run: list[Token] = []
    for token in found:
        # The pieces of a run overlap, and stay together.
        if run and not (token.run and token.start < run[-1].end):
            clauses.append(_together(run))
            run = []
        if token.run:
            run.append(token)
        else:
            clauses.append(_word(token, is_last=is_last and token is found[-1]))
    return [*clauses, _together(run)] if run else clauses


def _word(token: Token, *, is_last: bool) -> Word:
    typos = typos_allowed(token.word)
    return Word(
        token.word,
        typos,
        may_lack_letter=len(token.word) == ONE_TYPO - 1 and not token.word.isdigit(),
        is_prefix=is_last,
        prefix_typos=1 if is_last and typos and len(token.word) >= SHORTEST_PREFIX_WITH_TYPO else 0,
    )


def _as_asked(found: list[Token]) -> tuple[str, ...]:
    """The words of tokens, without the last one if it is the end of a run: whatever follows it in a text, it is a pair there."""
    ends_run = len(found) > 1 and found[-1].run and found[-2].run and found[-1].end == found[-2].end
    return tuple(token.word for token in (found[:-1] if ends_run else found))
