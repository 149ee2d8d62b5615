"""The index on this machine: films are put into it, and found in it. Tantivy does the work; nothing else imports it.

There is one document for each video, so totals, facets and pages are exact. What is put becomes visible with a commit, all of it
or nothing.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from shared.core.caller import Caller
from shared.search.document import Film
from shared.search.question import Question

FORM = 1
"""Of the index. One of another form is not opened: it is to be built anew."""
DEEPEST = 1_000
"""Hits of a question that can be paged through."""
FACETS = ("category", "tag", "year")


class OtherForm(Exception):
    """The index in the folder was written by another version of the service, or of Tantivy."""


@dataclass(frozen=True)
class Mark:
    """How far the index has followed the changes."""

    places: Mapping[str, int]
    """The position up to which each log has been read, by its key."""
    as_of: int
    """Milliseconds since 1970: when everything up to then had been read."""


@dataclass(frozen=True)
class Filters:
    """What to keep of what a question finds; None: any."""

    category: str | None = None
    tag: str | None = None
    """In any spelling."""
    user_id: str | None = None
    language: str | None = None
    created_from: int | None = None
    """Epoch seconds; films of that second are kept."""
    created_to: int | None = None
    """Epoch seconds; films of that second are kept."""


class Hit(NamedTuple):
    """A video that was found. Those that come first have more score, and among equals the smaller id."""

    video_id: str
    score: float


@dataclass(frozen=True)
class Found:
    """A page of what a question finds."""

    hits: Sequence[Hit]
    total: int
    """How many films the question finds for the caller, on all pages."""
    facets: Mapping[str, Sequence[tuple[str | int, int]]] = field(default_factory=dict)
    """How many of them there are by value, the most frequent first."""
    more: bool = False
    """Whether a page follows."""


class Stored(NamedTuple):
    """The texts of a film, for highlights."""

    title: str
    names: Sequence[str]
    tags: Sequence[str]
    description: str
    captions: Sequence["Said"]


class Said(NamedTuple):
    """The captions in one language; line by line, what belongs to the same cue."""

    language: str
    starts: str
    """Milliseconds, a space between them."""
    texts: str
    words: str
    """Folded, a space between them."""


class File(NamedTuple):
    """A file of the index."""

    name: str
    size: int
    """Bytes."""
    is_immutable: bool
    """Whether a file of this name never has another content."""


class Engine:
    """An index in a folder, which is made if it is not there. Only one engine of a folder can write."""

    def __init__(self, folder: Path, *, heap: int = 20_000_000) -> None:
        """Open or make the index; raises OtherForm. `heap` are bytes that a writer may take, 15 MB at least."""

    @property
    def mark(self) -> Mark | None:
        """What the last commit had followed; None before the first."""
        raise NotImplementedError

    def put(self, films: Iterable[Film], gone: Iterable[str] = ()) -> None:
        """Put films in, in place of those of the same ids, and take out the videos that are gone; nobody sees it yet."""
        raise NotImplementedError

    def commit(self, at: Mark) -> None:
        """Let everybody see what was put, and keep how far that has followed the changes."""
        raise NotImplementedError

    def search(
        self,
        question: Question,
        caller: Caller,
        now: int,
        *,
        filters: Filters = Filters(),
        facets: Collection[str] = (),
        limit: int = 25,
        after: Hit | None = None,
    ) -> Found:
        """A page of what the caller may see at this second, after a hit of the page before."""
        raise NotImplementedError

    def similar(self, video_id: str, caller: Caller, now: int, *, limit: int = 10) -> list[Hit] | None:
        """The films most like one, without it; None if the index does not have it."""
        raise NotImplementedError

    def stored(self, video_id: str) -> Stored | None:
        """A film's texts; None if the index does not have it."""
        raise NotImplementedError

    def files(self) -> list[File]:
        """What the last commit consists of; a copy of these files is the same index."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the folder, without what was put since the last commit."""
        raise NotImplementedError
