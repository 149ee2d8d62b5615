"""Texts of a video that every engine stores, and the normalised words that every engine indexes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.search.document import VideoDocument
from shared.search.tokenizer import joined, tokens


class CaptionText(NamedTuple):
    """Captions of a video in one language, as the index stores them. Cues without words are omitted."""

    language: str
    starts: str
    """Start times of the cues in milliseconds, separated by spaces."""
    texts: str
    """Texts of the cues, separated by newlines."""
    words: str
    """Normalised words of the cues, separated by spaces. Newlines separate the cues."""


class StoredFields(NamedTuple):
    """Texts of a video in their original spelling, which the index stores because highlights show them."""

    title: str
    names: Sequence[str]
    tags: Sequence[str]
    description: str
    captions: Sequence[CaptionText]

    @classmethod
    def of(cls, video: VideoDocument) -> "StoredFields":
        """Return the texts of `video` to store in the index."""
        captions = (_caption(language, cues) for language, cues in video.captions.items())
        return cls(
            video.title,
            list(video.names),
            list(video.tags),
            video.description,
            [caption for caption in captions if caption.words],
        )

    @property
    def caption_length(self) -> int:
        """Total number of characters of all captions. The end of each language's text counts as one character."""
        return sum(len(caption.texts) + 1 for caption in self.captions)

    def words(self) -> Mapping[str, Sequence[str]]:
        """Return the normalised texts by field, as they are indexed: words, separated by white space.

        Each text is a separate string, so that phrases do not match across texts. Each compound word, such as
        `spiderman` for Spider-Man, is an additional string.
        """
        texts = {"title": [self.title], "names": self.names, "tags": self.tags, "description": [self.description]}
        indexed = {
            name: [words for text in values for words in (_words(text), *_joined(text)) if words]
            for name, values in texts.items()
        }
        return {**indexed, "captions": [caption.words for caption in self.captions]}


NOTHING_STORED = StoredFields("", (), (), "", ())


def distinct_words(texts: Mapping[str, Sequence[str]]) -> str:
    """Return every distinct word of these texts, which are grouped by field. The words are separated by spaces."""
    return " ".join(sorted({word for values in texts.values() for text in values for word in text.split()}))


def language_prefixes(tag: str | None) -> list[str]:
    """Return all prefixes of a language tag: `pt` and `pt-br` for `pt-BR`. A filter for any of them finds the video."""
    subtags = tag.lower().split("-") if tag else []
    return ["-".join(subtags[:count]) for count in range(1, len(subtags) + 1)]


def _caption(language: str, cues: Sequence[tuple[int, str]]) -> CaptionText:
    found = [(start, " ".join(text.split()), _words(text)) for start, text in cues]
    found = [cue for cue in found if cue[2]]
    return CaptionText(
        language,
        " ".join(str(start) for start, _, _ in found),
        "\n".join(text for _, text, _ in found),
        "\n".join(words for _, _, words in found),
    )


def _words(text: str) -> str:
    return " ".join(token.word for token in tokens(text))


def _joined(text: str) -> list[str]:
    return [token.word for token in joined(text, tokens(text))]
