"""Search results in API responses.

The index finds the videos. The table then determines which of them the caller may see, and supplies their attributes. A
video that was just hidden is therefore not shown, even if the index is stale.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.position import Position
from shared.core.regions import language as usual_language
from shared.schema import VIDEO
from shared.search.engine import DEEPEST, Hit, SearchEngine
from shared.search.highlights import Highlighter, Highlights
from shared.search.index_query import SearchFilters
from shared.search.query_parser import SearchQuery
from shared.search.stored import NOTHING_STORED
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import require_visible
from shared.videos.documents import summary
from shared.videos.store import VideoStore
from shared.videos.video import normalised_tags

SPARE = 10
"""Number of additional similar videos to read, because the caller may not see some of them."""
MAX_QUOTED = 10_000_000
"""Maximum number of caption characters to read per page. The captions of about 100 feature films together have this
many characters. Reading them takes 0.5 seconds."""

Shown = Callable[[dict[str, Any]], dict[str, Any]]
"""Function that returns a video's document with URLs of thumbnails instead of S3 URIs."""


@dataclass(frozen=True)
class SearchPage:
    """Page of search results, with the documents of the videos."""

    items: list[dict[str, Any]]
    total: int
    facets: dict[str, list[dict[str, Any]]]
    resume: Position | None
    """Position at which the next page starts. `None` on the last page."""


class VideoSearch:
    """Search that finds videos with the engine, and reads them from the table."""

    def __init__(self, engine: SearchEngine, videos: VideoStore, shown: Shown) -> None:
        self._engine, self._videos, self._shown = engine, videos, shown

    def page(
        self,
        search_query: SearchQuery,
        filters: SearchFilters,
        caller: Caller,
        now: int,
        *,
        facets: Collection[str],
        limit: int,
        after: Position | None,
        consistent: bool = False,
    ) -> SearchPage:
        """Return a page of search results. The page is full, except at the end of the results.

        `consistent` reads the videos with strong consistency. The method drops a hit if the video in the table is not
        visible to the caller, or no longer matches the filters. The total and the facets are counts of the index
        without the dropped hits. Raises Unavailable if more than DEEPEST hits were dropped.
        """
        last = _hit_at(after) if after else None
        videos: dict[str, Item | None] = {}
        dropped: set[str] = set()
        size = limit
        while True:
            found = self._engine.search(
                search_query, caller, now, filters=filters, facets=facets, limit=size, after=last, without=dropped
            )
            # Read only videos that an earlier round did not read.
            missing = [hit.video_id for hit in found.hits if hit.video_id not in videos]
            videos.update(zip(missing, self._visible_hits(missing, filters, caller, now, consistent), strict=True))
            rejected = {video_id for video_id in missing if videos[video_id] is None}
            if not rejected:
                break
            dropped |= rejected
            if len(dropped) > DEEPEST:
                raise Unavailable("The search index lags far behind the videos.", retry_after=10)
            # Rejected videos are often adjacent, because they were changed together. Therefore the page size grows with
            # the number of rejected videos.
            is_full = len(found.hits) - len(rejected) >= limit
            size = limit if is_full else limit + len(dropped)
        items = [(hit, video) for hit in found.hits[:limit] if (video := videos[hit.video_id])]
        counted = {
            name: [{"value": value, "count": count} for value, count in values] for name, values in found.facets.items()
        }
        is_last = len(found.hits) <= limit and not found.more
        resume = None if is_last else _position_of(items[-1][0])
        return SearchPage(self._documents(items, search_query), found.total, counted, resume)

    def similar(self, video_id: str, caller: Caller, now: int, limit: int) -> list[dict[str, Any]]:
        """Return the videos that are most similar to a video. Raises NotFound if the caller may not see `video_id`."""
        item = self._videos.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
        require_visible(item, caller, now)
        hits = self._engine.similar(video_id, caller, now, limit=limit + SPARE) or []
        videos = self._visible_hits([hit.video_id for hit in hits], SearchFilters(), caller, now)
        alike = [(hit, video) for hit, video in zip(hits, videos, strict=True) if video is not None]
        return [self._document(video) | {"score": _score(hit)} for hit, video in alike[:limit]]

    def _visible_hits(
        self, video_ids: Sequence[str], filters: SearchFilters, caller: Caller, now: int, consistent: bool = False
    ) -> list[Item | None]:
        """Return the summaries of these videos, read from the table, in the order of `video_ids`.

        A summary is `None` if the caller may not see the video, or if the video no longer matches the filters.
        """
        more = ("tags", "language", "description")
        videos = self._videos.summaries(video_ids, caller, now, also=more, consistent=consistent)
        return [video if video is not None and _keeps(filters, video) else None for video in videos]

    def _documents(self, items: Sequence[tuple[Hit, Item]], search_query: SearchQuery) -> list[dict[str, Any]]:
        if not search_query.clauses:
            return [self._document(video) for _, video in items]
        highlighter = Highlighter(search_query)
        stored = self._engine.stored([hit.video_id for hit, _ in items], max_characters=MAX_QUOTED)
        documents = []
        for (hit, video), indexed in zip(items, stored, strict=True):
            # Highlights use the current texts, because the index may still contain removed ones.
            texts = {
                "title": video["title"],
                "tags": sorted(video.get("tags", ())),
                "description": video.get("description", ""),
            }
            fits = highlighter.of((indexed or NOTHING_STORED)._replace(**texts))
            documents.append(self._document(video) | {"score": _score(hit)} | _fits(fits))
        return documents

    def _document(self, video: Item) -> dict[str, Any]:
        return {"video": self._shown(summary(video))}


def _fits(fits: Highlights) -> dict[str, Any]:
    shown: dict[str, Any] = {"highlights": [part._asdict() for part in fits.parts]}
    return shown | ({"quote": fits.quote._asdict()} if fits.quote else {})


def _keeps(filters: SearchFilters, video: Item) -> bool:
    expected = {"userId": filters.user_id, "category": filters.category}
    if any(value is not None and video.get(name) != value for name, value in expected.items()):
        return False
    if filters.tag is not None and filters.tag not in normalised_tags(video):
        return False
    if filters.language is not None:
        language = usual_language(video.get("language", "")).lower()
        if not f"{language}-".startswith(f"{filters.language.lower()}-"):
            return False
    created = video["createdAt"]
    return (filters.created_from is None or filters.created_from <= created) and (
        filters.created_before is None or created < filters.created_before
    )


def _score(hit: Hit) -> float:
    return round(hit.score, 4)


def _position_of(hit: Hit) -> Position:
    """Return the position after a hit, from which the next page starts.

    A position's sort value `at` must be an integer, but the rank of a hit is a fraction. Therefore the position's `id`
    contains the rank, and then the videoId.
    """
    return Position(0, f"{hit.rank!r} {hit.video_id}")


def _hit_at(position: Position) -> Hit:
    rank, _, video_id = position.id.partition(" ")
    return Hit(video_id, float(rank))
