"""The service with its change feed, and a search index that follows the feed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from local.testbed.audited import AuditedService
from local.testbed.harness import MEDIA_BUCKET, Clock, make_api
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.attributes import Item
from shared.feed.change import change_of
from shared.feed.log import Feed
from shared.schema import AUDIT_TABLE_NAME
from shared.search.builder import IndexBuilder
from shared.search.engine import SearchEngine
from shared.search.generations import EmbeddedStore, Generations, LocalCopy
from shared.search.loader import DocumentLoader
from shared.search.stored import StoredFields
from shared.search.tantivy_engine import TantivyEngine

WEBVTT = "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n"


def publish_index(table: Table, objects: Objects, clock: Clock, folder: Path) -> None:
    """Publish the first index in `folder`, for tests of other subjects."""
    assert IndexedService(table, objects, clock).builder(folder).run().outcome == "published"


def stored_in(engine: SearchEngine, video_id: str) -> StoredFields | None:
    """Return the stored texts of one video."""
    return next(engine.stored([video_id]))


class IndexedService(AuditedService):
    """The service with its background work and feed, and the dependencies of index builders and readers."""

    def __init__(self, table: Table, objects: Objects, clock: Clock) -> None:
        super().__init__(make_api(table, clock, objects))
        self.objects = objects
        self.feed_table = Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None)
        self.feed = Feed(self.feed_table, clock)
        self.loader = DocumentLoader(table, objects, MEDIA_BUCKET)
        self.generations = Generations(table, objects, MEDIA_BUCKET, clock)

    def add(self, entry: Item) -> None:
        """Store an entry and append it to the feed."""
        change = change_of(entry)
        self.feed.prepare([change])
        super().add(entry)
        self.feed.append([change])

    def publish_video(self, title: str, owner: str = "alice", **fields: object) -> str:
        """Publish a video, visible to everyone, and update the feed. Return its id."""
        video_id = str(self.api.publish(owner, title=title, **fields)["videoId"])
        self.settle()
        return video_id

    def put_captions(self, video_id: str, text: str, language: str = "en") -> None:
        """Upload captions with this text, and update the feed."""
        path = f"/v1/videos/{video_id}/captions/{language}"
        reply = self.api.request("PUT", path, body=WEBVTT.format(text), headers={"content-type": "text/vtt"})
        assert reply.status in (200, 201), reply.body
        self.settle()

    def builder(
        self,
        folder: Path,
        report_progress: Callable[[int], None] = lambda _: None,
        heartbeat: Callable[[Callable[[], None]], AbstractContextManager[Any]] = nullcontext,
    ) -> IndexBuilder:
        """Return a builder with its own folder. Its lease is renewed only if the test passes a heartbeat."""
        return IndexBuilder(
            EmbeddedStore(self.generations, LocalCopy(folder)),
            self.table,
            self.feed,
            self.loader,
            clock=self.clock,
            report_progress=report_progress,
            heartbeat=heartbeat,
        )

    def published(self, folder: Path, *video_ids: str) -> dict[str, StoredFields | None]:
        """Return the stored fields of these videos in a copy of the current generation."""
        copy = LocalCopy(folder)
        self.generations.copy_newest(copy)
        engine = TantivyEngine(copy.folder)
        documents = {video_id: stored_in(engine, video_id) for video_id in video_ids}
        engine.close()
        return documents
