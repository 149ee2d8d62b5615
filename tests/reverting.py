"""Change sets with all kinds of changes, their reverts, and the worker that reverts large ones."""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from unittest.mock import patch

from functions.reverts import handler as reverts
from local.testbed.audited import AuditedService
from local.testbed.harness import Api, Context, FakeResources, Reply
from local.testbed.streams import sqs_event
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.captions.models import ChaptersContent
from shared.captions.store import CaptionStore
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.history.changeset_reverts import ChangeSetReverts
from shared.relations.credits import RelationStore
from shared.relations.models import CreditContent, ReleaseContent
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.relations.ratings import RatingStore
from shared.routes import ADMIN, READ, WRITE
from shared.schema import AUDIT, CAPTION, CHANGESET, CHAPTERS, CREDIT, PLAYLIST, PLAYLIST_AUDIT, RATING_TOTALS, RELEASE
from shared.videos import video
from tests.integration.faults import Killed

ROLES = [{"category": "actor"}]
TITLES = [{"title": "Kia ora", "types": [], "attributes": []}]
CAPTIONS: Item = {"text": "0" * 32, "cues": 2, "size": 60, "origin": "owner"}
CONTENTS: Item = {"chapters": [{"start": 0, "title": "Opening"}, {"start": 9000, "title": "At sea"}]}


WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}
"""Names of DynamoDB operations that change a table."""


def allow_any(_: Item | None) -> bool:
    """Accept any current state, as a write without a precondition."""
    return True


class RevertTestbed(AuditedService):
    """The service, its audit trail, and the worker for the queue `reverts`."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.relations = RelationStore(api.table)
        self.captions = CaptionStore(api.table)
        self.ratings = RatingStore(api.table)
        self.playlists = PlaylistStore(api.table)
        self.entries_of_playlists = EntryStore(self.playlists)
        self.set_page_size(1)

    def set_page_size(self, pages: int) -> None:
        """Limit each step of the worker to this many pages of a change set."""
        resources = FakeResources(self.api.table, self.clock, audit=self.trail.table, queues=self.queues)
        with patch.object(reverts, "ChangeSetReverts", partial(ChangeSetReverts, pages=pages)):
            self.worker = resources.make(reverts.lambda_handler)

    @property
    def now(self) -> int:
        """Current time, in seconds since the epoch."""
        return int(self.clock())

    def admin(self, changeset_id: str) -> Caller:
        """Return an admin whose writes belong to this change set."""
        return Caller("admin", frozenset({READ, WRITE, ADMIN}), correlation_id=changeset_id)

    def last_changeset(self, video_id: str) -> str:
        """Return the change set that last wrote to a video or to its child items."""
        return self._last(AUDIT.key(videoId=video_id, at="", sequence="")["pk"])

    def last_changeset_of_playlist(self, playlist_id: str) -> str:
        """Return the change set that last wrote to a playlist."""
        return self._last(PLAYLIST_AUDIT.key(playlistId=playlist_id, at="", sequence="")["pk"])

    def _last(self, partition: str) -> str:
        condition = Expression.of("#pk = :pk", pk=partition)
        page = self.trail.table.query(index=None, condition=condition, ascending=False, limit=1)
        return str(page.items[0][CHANGESET])

    def discard_records(self) -> None:
        """Discard the stream records of all writes since the last `settle`, so that the trail never contains them."""
        self.records()

    def create_change_set(self, changeset_id: str, user: str = "alice", *, videos: int = 1) -> "CreatedChangeSet":
        """Create items of all kinds in one change set: videos with their child items, and a playlist that contains the
        videos."""
        caller = self.admin(changeset_id)._replace(subject=user)
        video_ids = []
        for _ in range(videos):
            item = video.with_defaults({"title": "A film", "tags": ["a"]}, caller, self.now)
            video_id = str(self.videos.create(item, caller, self.now)["videoId"])
            self.relations.put_credit(
                video_id,
                "sam",
                CreditContent.model_validate({"ordering": 1, "roles": ROLES}),
                caller,
                self.now,
                allow_any,
            )
            release = ReleaseContent.model_validate({"titles": TITLES})
            self.relations.put_release(video_id, "NZ", "mi", release, caller, self.now, allow_any)
            self.captions.put(video_id, "mi", CAPTIONS, caller, self.now, allow_any)
            chapters = ChaptersContent.model_validate(CONTENTS)
            self.captions.put_chapters(video_id, chapters, caller, self.now, allow_any)
            self.ratings.set_imported(video_id, 7.5, 10, caller, self.now, owner=user)
            video_ids.append(video_id)
        playlist_id = str(uuid.uuid4())
        self.playlists.create(playlist_id, {"title": "A list", "visibility": "private"}, caller, self.now)
        for video_id in video_ids:
            self.entries_of_playlists.append(playlist_id, video_id, caller, self.now)
        self.settle()
        return CreatedChangeSet(self, video_ids, playlist_id)

    def undo(self, changeset_id: str, *, query: str = "", user: str = "admin", **body: Any) -> Reply:
        """Request the revert of a change set, one second after the last change."""
        self.clock.advance(1)
        return self.api.post(f"/v1/changesets/{changeset_id}/revert", body or None, query=query, user=user)

    def revert_and_settle(self, changeset_id: str, **options: Any) -> dict[str, Any]:
        """Revert a change set, update the trail, and return the report. The revert must complete within the request."""
        reply = self.undo(changeset_id, **options)
        assert reply.status == 200, reply.body
        self.settle()
        report: dict[str, Any] = reply.json
        return report

    def deliver(self, *bodies: dict[str, Any], context: Context | None = None) -> dict[str, Any]:
        """Deliver messages to the worker, as SQS does."""
        return self.worker(sqs_event(*bodies), context or Context())

    def work(self, *, context: Callable[[], Context] = Context, follow: bool = True) -> int:
        """Deliver all messages to the worker until none is left. Return the number of messages. `follow` updates the
        audit trail after each message."""
        count = 0
        self.settle()
        while messages := self.queues["reverts"].take():
            for message in messages:
                assert self.deliver(message, context=context()) == {"batchItemFailures": []}
                count += 1
                if follow:
                    self.settle()
        return count

    def run(self, changeset_id: str, revert_id: str, *, query: str = "limit=100", user: str = "admin") -> Reply:
        """Get the status of a run."""
        return self.api.get(f"/v1/changesets/{changeset_id}/reverts/{revert_id}", query=query, user=user)

    def stored(self) -> dict[tuple[str, str], Item]:
        """Return all stored items, except runs."""
        pages: Any = self.table.client.get_paginator("scan").paginate(TableName=self.table.name)
        raw = [item for page in pages for item in page["Items"] if not item["pk"]["S"].startswith("REVERT#")]
        return {(item["pk"]["S"], item["sk"]["S"]): item for item in raw}


class CreatedChangeSet:
    """Items that a change set created."""

    def __init__(self, testbed: RevertTestbed, video_ids: list[str], playlist_id: str) -> None:
        self.testbed, self.video_ids, self.playlist_id = testbed, video_ids, playlist_id

    def existing_kinds(self) -> dict[str, Any]:
        """Return whether each kind of item exists. Only the child items of the first video are checked."""
        video_id, table = self.video_ids[0], self.testbed.table
        playlist = table.get(PLAYLIST.key(playlistId=self.playlist_id), consistent=True) or {}
        totals = table.get(RATING_TOTALS.key(videoId=video_id), consistent=True) or {}
        release = RELEASE.key(videoId=video_id, region="NZ", language="mi")
        return {
            "video": self.testbed.item(video_id)["status"] != "deleted",
            "credit": table.get(CREDIT.key(videoId=video_id, personId="sam"), consistent=True) is not None,
            "release": table.get(release, consistent=True) is not None,
            "captions": table.get(CAPTION.key(videoId=video_id, language="mi"), consistent=True) is not None,
            "chapters": table.get(CHAPTERS.key(videoId=video_id), consistent=True) is not None,
            "rating": "imported" in totals,
            "playlist": "deletedAt" not in playlist,
        }


def kill_at_write(table: Table, at: int, *, after: bool) -> Callable[[], None]:
    """Stop the process at write number `at`, counted from 0: that write and all later ones raise Killed. With `after`,
    write `at` is first sent. Return a function that restores normal requests."""
    count = 0

    def between(operation: str, _: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        nonlocal count
        if operation not in WRITES:
            return send()
        count += 1
        if count - 1 < at:
            return send()
        if count - 1 == at and after:
            send()
        raise Killed

    return intercept(table.client, between)
