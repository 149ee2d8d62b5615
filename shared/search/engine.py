"""Interface of the search engines, and the types of their results.

Two engines implement it: Tantivy in the function's process (shared/search/tantivy_engine.py), and OpenSearch
(shared/search/opensearch_engine.py). Both find the same videos with the same scores, because both translate the same
query trees (shared/search/index_query.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.feed.log import LogCursor
from shared.search.document import VideoDocument
from shared.search.index_query import SearchFilters
from shared.search.query_parser import SearchQuery
from shared.search.stored import StoredFields

DEEPEST = 1_000
"""Maximum number of hits that a caller can read of one query, on all pages together."""
MAX_VALUES = 100
"""Maximum number of values per facet."""


class IncompatibleIndex(Exception):
    """Error: the index is missing or damaged, has another format version, or was written by another engine version."""


@dataclass(frozen=True)
class IndexCheckpoint:
    """Checkpoint of the index: the positions in the feed up to which the index includes all changes."""

    places: Mapping[str, LogCursor]
    """Position of the next change to consume, by log key."""
    as_of: int
    """Time in epoch milliseconds. The index includes all changes before this time."""


class Hit(NamedTuple):
    """Video that matches a query. Hits sort by descending rank, then by id."""

    video_id: str
    rank: float
    """Sort value. If the query has words, the rank is the score, to which Tantivy adds a tiny offset so that ties are
    rare. If the query has no words, the rank increases with the creation time."""
    score: float = 0.0
    """Relevance of the video. It depends only on the query and the video."""


@dataclass(frozen=True)
class SearchHits:
    """Page of hits, with the number of all matches and their facets."""

    hits: Sequence[Hit]
    total: int
    """Number of matching videos that the caller may see, on all pages."""
    facets: Mapping[str, Sequence[tuple[str | int, int]]] = field(default_factory=dict)
    """Most frequent values of each facet, at most MAX_VALUES, with the number of matching videos that have the value.
    Tags are case-folded."""
    more: bool = False
    """Whether another page follows."""


class SearchEngine(Protocol):
    """Queries of an engine. Results contain only committed changes, and only videos that the caller may see."""

    def search(
        self,
        search_query: SearchQuery,
        caller: Caller,
        now: int,
        *,
        filters: SearchFilters = ...,
        facets: Collection[str] = ...,
        limit: int = ...,
        after: Hit | None = ...,
        without: Collection[str] = ...,
    ) -> SearchHits:
        """Return a page of the videos that match the query and that the caller may see at `now`.

        `after` is the last hit of the previous page; `None` requests the first page. The page starts after the current
        position of this hit or, if it no longer matches, after its old position. `without` contains the ids of videos
        to exclude. A query without clauses sorts hits by creation time, newest first.
        """

    def similar(self, video_id: str, caller: Caller, now: int, *, limit: int = ...) -> list[Hit] | None:
        """Return the videos that are most similar to a video, excluding this video. `None` if the index does not
        contain the video."""

    def stored(self, video_ids: Sequence[str], *, max_characters: int | None = None) -> Iterator[StoredFields | None]:
        """Yield the stored texts of each video, in the order of `video_ids`.

        Yields `None` for a video that is not indexed. Also yields `None` for a video whose captions would make the
        total length of all yielded captions exceed `max_characters`.
        """


class IndexWriter(SearchEngine, Protocol):
    """Engine that can also change its index. Only one consumer of the feed uses it at a time."""

    @property
    def checkpoint(self) -> IndexCheckpoint | None:
        """Checkpoint of the last commit. `None` before the first one."""

    @property
    def size(self) -> int:
        """Number of indexed videos."""

    def put(
        self,
        documents: Iterable[VideoDocument],
        deleted_ids: Iterable[str] = (),
        places: Mapping[str, LogCursor] | None = None,
    ) -> None:
        """Add or replace videos, and delete the videos in `deleted_ids`.

        Searches see the change after `commit`. The documents include all changes before the feed positions `places`. By
        default, these are the positions of the checkpoint. If several writers may share the index, each stored document
        has a feed position. In such an index, the engine ignores a document unless its feed position is later than the
        stored position.
        """

    def commit(self, at: IndexCheckpoint) -> None:
        """Make pending changes visible and store the checkpoint.

        If the process crashes between these two steps, the checkpoint is older than the index. The next run then
        indexes some changes again, which is harmless.
        """

    def close(self) -> None:
        """Release the index. Uncommitted changes are discarded."""


def index_unavailable() -> Unavailable:
    """Return the error for an index that is missing or damaged, or has another format version."""
    return Unavailable("The search index is being built.", retry_after=10)


def by_rank(hit: Hit) -> tuple[float, str]:
    """Return the sort key of a hit: hits with higher rank first, then by id."""
    return -hit.rank, hit.video_id


def page_of(ranked: Sequence[Hit], last: Hit | None, limit: int) -> tuple[Sequence[Hit], bool]:
    """Return the page after the hit `last`, and whether another page follows. `last` is `None` for the first page.

    `ranked` has the first hits of the query, in order. It has at least `limit` + 1 hits for the first page, and at
    least DEEPEST hits for later pages. It has fewer only if the query has fewer.
    """
    past = None if last is None else by_rank(last)
    first = next((index for index, hit in enumerate(ranked) if past is None or by_rank(hit) > past), len(ranked))
    return ranked[first : min(first + limit, DEEPEST)], first + limit < min(len(ranked), DEEPEST)


def most_frequent(buckets: Iterable[Mapping[str, Any]], is_number: bool) -> list[tuple[str | int, int]]:
    """Return the values of a facet with their counts, the most frequent values first, at most MAX_VALUES.

    `buckets` has the values of a terms aggregation, in the form that both engines return.
    """
    values = [(int(bucket["key"]) if is_number else bucket["key"], bucket["doc_count"]) for bucket in buckets]
    return sorted(values, key=lambda value: (-value[1], value[0]))[:MAX_VALUES]
