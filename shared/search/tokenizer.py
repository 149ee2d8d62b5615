"""Tokenizer and edit distance for indexing, queries and highlights.

A word is a run of letters and digits, normalised: without case, accents and compatibility forms (`Ärger` becomes
`arger`, `STRAßE` becomes `strasse`). Scripts without spaces between words are split into overlapping character pairs.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

LONGEST_WORD = 40
"""Maximum number of characters of a word. Longer words are truncated."""
ONE_TYPO, TWO_TYPOS = 4, 8
"""Minimum number of letters of a word that may have one typo (ONE_TYPO) or two typos (TWO_TYPOS)."""

_LETTERS = str.maketrans(
    {
        "ø": "o",
        "æ": "ae",
        "œ": "oe",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ħ": "h",
        "ŧ": "t",
        "ŋ": "n",
        "\u0131": "i",
    }
)
"""Replacements of letters that Unicode does not decompose."""
_ACCENTS = re.compile(r"[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]")  # fmt: skip
"""Marks that normalisation removes from letters. Marks of Indic scripts are vowels, and are retained."""
_APOSTROPHES = "'\u2019\u02bc\uff07"
_HYPHENS = "-\u2010\u2011"
_DOTS = ".\u00b7\u30fb"
_JOINERS = {ord(joiner): kind for kind, joiners in {"'": _APOSTROPHES, "-": _HYPHENS, ".": _DOTS}.items() for joiner in joiners}  # fmt: skip

_SPACELESS = (
    "\u0e01-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3031-\u3035\u3041-\u30ff\u3105-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Characters of scripts without spaces between words: Han, Kana, Hangul, Thai, Lao, Khmer and Burmese."""
# English endings after an apostrophe belong to the word: don't, it's, we'll. Otherwise the apostrophe splits: l'été.
_WORD = re.compile(rf"(?P<run>[{_SPACELESS}]+)|(?P<word>[^ '\-.{_SPACELESS}]+(?:'(?:s|t|re|ll|ve|d|m)(?![^ '\-.]))?)")


class Token(NamedTuple):
    """Word of a text, with its position in the text."""

    word: str
    """Normalised word."""
    start: int
    end: int
    """End offset, exclusive. `start` and `end` count characters of the original text."""
    run: bool = False
    """Whether the token is a pair of characters from a run without spaces, or the last character of such a run."""


def tokens(text: str) -> list[Token]:
    """Split a text into words, in order.

    A run is a sequence of characters of a script without spaces. Each character of a run yields a token: the pair of
    this character and the next one. The token of the last character is this character alone. Therefore a search finds
    every substring of a run by consecutive tokens, and every single character by a prefix.
    """
    folded, starts, ends = _normalise(text)
    found: list[Token] = []
    for match in _WORD.finditer(folded):
        start, end = match.span()
        if match["run"] is None:
            word = match[0].replace("'", "")[:LONGEST_WORD]
            found.append(Token(word, starts[start], ends[end - 1]))
            continue
        for at in range(start, end):
            last = min(at + 2, end)
            found.append(Token(folded[at:last], starts[at], ends[last - 1], run=True))
    return found


def joined(text: str, found: list[Token]) -> list[Token]:
    """Return each compound word of `text` as one token, without the hyphens, apostrophes or dots that join its parts.
    `found` has the tokens of `text`.

    So `spiderman` matches Spider-Man, `ohara` matches O'Hara, and `usa` matches U.S.A.
    """
    joins: list[Token] = []
    parts: list[Token] = []
    for token, following in zip(found, [*found[1:], None], strict=False):
        parts.append(token)
        between = text[token.end : following.start] if following else ""
        if len(between) == 1 and ord(between) in _JOINERS and not (token.run or (following and following.run)):
            continue
        if len(parts) > 1:
            word = "".join(part.word for part in parts)[:LONGEST_WORD]
            joins.append(Token(word, parts[0].start, parts[-1].end))
        parts = []
    return joins


def words(text: str) -> list[str]:
    """Return the normalised words of a text."""
    return [token.word for token in tokens(text)]


def typos_allowed(word: str) -> int:
    """Return the maximum number of typos in a word. 0 for numbers, and for words with less than ONE_TYPO letters."""
    if len(word) < ONE_TYPO or word.isdigit():
        return 0
    return 1 if len(word) < TWO_TYPOS else 2


def distance(one: str, other: str, most: int) -> int:
    """Return the edit distance of two words, or `most` + 1 if the distance exceeds `most`.

    Insertions, deletions, substitutions and transpositions of adjacent letters cost 1 each.
    """
    # One typo removes at most one letter and adds at most one. This check rejects nearly all words of a text.
    if abs(len(one) - len(other)) > most or len(set(one) - set(other)) > most or len(set(other) - set(one)) > most:
        return most + 1
    older: list[int] = []
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most and min(before) > most:
            return most + 1
    return min(row[-1], most + 1)


def prefix_distance(start: str, word: str, most: int) -> int:
    """Return the smallest edit distance between `start` and any prefix of `word`, or `most` + 1 if this distance
    exceeds `most`."""
    if len(set(start) - set(word)) > most:
        return most + 1
    longest = len(start) + most
    return min(distance(start, word[:length], most) for length in range(max(len(start) - most, 0), longest + 1))


def _normalise(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Return the normalised text. Also return, for each of its characters, the start and end in the original text.

    Apostrophes, hyphens and dots, in all their Unicode variants, become `'`, `-` and `.`. All other characters except
    letters, marks and digits become spaces.
    """
    if not unicodedata.is_normalized("NFC", text):
        return _normalise_clusters(text)
    pieces = [_FOLDS[character] for character in text]
    folded = "".join(pieces)
    if len(folded) == len(text) and all(pieces):
        return folded, range(len(text)), range(1, len(text) + 1)
    starts = [at for at, piece in enumerate(pieces) for _ in piece]
    return folded, starts, [at + 1 for at in starts]


def _normalise_clusters(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Normalise a text that is not in NFC, one cluster (base character and marks) at a time.

    Returns the same values as `_normalise`.
    """
    clusters = [at for at, character in enumerate(text) if at == 0 or not _continues(character)]
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in pairwise([*clusters, len(text)]):
        composed = unicodedata.normalize("NFC", text[start:end])
        piece = "".join(_FOLDS[character] for character in composed)
        folded.append(piece)
        starts += [start] * len(piece)
        ends += [end] * len(piece)
    return "".join(folded), starts, ends


def _continues(character: str) -> bool:
    """Return whether the character is in the same cluster (base character and marks) as the previous character.

    Marks, and vowels and final consonants of Hangul, continue the cluster of the previous character.
    """
    return unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff"


class _Folds(dict[str, str]):
    """Cache of normalised characters."""

    def __missing__(self, character: str) -> str:
        folded = self[character] = _fold(character)
        return folded


def _fold(character: str) -> str:
    if ord(character) in _JOINERS:
        return _JOINERS[ord(character)]
    compatible = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", compatible)).translate(_LETTERS)
    return "".join(_letter(each) for each in unicodedata.normalize("NFC", bare))


def _letter(character: str) -> str:
    """Return the character if it can be part of a word, else a space."""
    return character if unicodedata.category(character)[0] in "LNM" else " "


_FOLDS = _Folds()


def spans(found: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of these tokens in the text. Overlapping or touching ranges are merged."""
    start = end = -1
    for token in found:
        if token.start <= end:
            end = max(end, token.end)
        else:
            if end >= 0:
                yield start, end
            start, end = token.start, token.end
    if end >= 0:
        yield start, end
