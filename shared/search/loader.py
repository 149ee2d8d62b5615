"""Loader of videos for the index: it reads items from the table, and caption texts from S3."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from shared.aws.dynamodb import QueryPage, Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.s3 import ObjectMissing, Objects
from shared.captions import webvtt
from shared.captions.cues import Cue, InvalidCaptions
from shared.captions.store import text_uri
from shared.core.attributes import Item, decode_item
from shared.core.telemetry import service_logger
from shared.schema import CAPTION, CREDIT, PARTITION_KEY, RELEASE, SORT_KEY, VIDEO
from shared.search.document import NO_LIMITS, IndexLimits, VideoDocument, build_document, searchable_texts
from shared.threads import map_threads

CONCURRENCY = 16
"""Maximum number of videos or caption texts that are read concurrently."""
LARGEST_READ = 1000
"""Maximum number of items per Query for one video. DynamoDB also limits a page to 1 MB."""
_LAST = f"{RELEASE.sort_prefix}~"
"""Upper bound of the sort keys that the loader reads. Items with greater sort keys, such as tag entries, are not
needed."""


class DocumentLoader:
    """Loader of videos for the index. It reads them with strong consistency.

    The feed contains each change only once, so a stale read would lose a change.
    """

    def __init__(
        self,
        table: Table,
        objects: Objects,
        bucket: str,
        limits: IndexLimits = NO_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the loader. `bucket` is the name of the bucket with the caption texts. `limits` determines which
        captions are loaded."""
        self._table, self._objects, self._bucket = table, objects, bucket
        self._limits, self._clock = limits, clock

    def read(self, video_ids: Sequence[str]) -> Iterator[tuple[str, VideoDocument | None]]:
        """Yield each id with the video's document, or `None` if the video does not exist or is deleted.

        Raises Unavailable.
        """
        for start in range(0, len(video_ids), CONCURRENCY):
            batch = video_ids[start : start + CONCURRENCY]
            firsts = require_all(gather(partial(self._begin, video_id) for video_id in batch))
            for video_id, first in zip(batch, firsts, strict=True):
                yield video_id, self._document(video_id, first)

    def _document(self, video_id: str, first: QueryPage) -> VideoDocument | None:
        items = list(first.items)
        following = first.last_key
        while following:
            page = self._begin(video_id, decode_item(following))()
            items += page.items
            following = page.last_key
        # The video's sort key begins with #, so the video is first. If it is missing, a purge will delete the other
        # items.
        if not items or items[0][SORT_KEY] != VIDEO.sk:
            return None
        video, children = items[0], items[1:]
        if video["status"] == "deleted":
            return None
        used = [
            item for item in children if CREDIT.has_sort_key(item[SORT_KEY]) or RELEASE.has_sort_key(item[SORT_KEY])
        ]
        captions: list[Item] = []
        if self._limits.includes_captions(video["createdAt"], self._clock()):
            captions = [item for item in children if CAPTION.has_sort_key(item[SORT_KEY])]
        texts = searchable_texts(captions, video.get("language"), self._limits.caption_cues)
        return build_document(video, used, self._cues(texts))

    def _begin(self, video_id: str, after: Item | None = None) -> Callable[[], QueryPage]:
        pk = VIDEO.key(videoId=video_id)[PARTITION_KEY]
        return self._table.begin_query(
            index=None,
            condition=Expression.of("#pk = :pk AND #sk BETWEEN :first AND :last", pk=pk, first=VIDEO.sk, last=_LAST),
            limit=LARGEST_READ,
            start=after,
            consistent=True,
        )

    def _cues(self, captions: Sequence[Item]) -> Mapping[str, Sequence[Cue]]:
        """Return the cues of these caption items by language. Omits captions without cues."""
        if not captions:
            return {}
        texts = map_threads(self._text, captions, CONCURRENCY)
        read = {
            item["language"]: _read(item, text) for item, text in zip(captions, texts, strict=True) if text is not None
        }
        return {language: cues for language, cues in read.items() if cues}

    def _text(self, item: Item) -> bytes | None:
        """Return the text of a caption item, or `None` if another request has deleted it. A later feed entry reports
        the deletion."""
        try:
            return self._objects.read(text_uri(self._bucket, item), 0, item["size"])
        except ObjectMissing:
            return None


def _read(item: Item, text: bytes) -> list[Cue]:
    """Parse the text of a caption item. Returns no cues if the text is damaged, so that the video remains
    searchable."""
    try:
        return webvtt.read(text.decode())
    except (UnicodeDecodeError, InvalidCaptions) as error:
        # The error's message is not logged, because it quotes the text.
        details = {"video_id": item["videoId"], "language": item["language"], "reason": type(error).__name__}
        service_logger().warning("captions not readable", extra=details)
        return []
