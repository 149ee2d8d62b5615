"""The service with its audit trail, for tests. Stream records are processed only by `settle`, and by methods that call
it."""

from collections.abc import Mapping, Sequence
from typing import Any

from local.testbed.background import DAYS, BackgroundWork
from local.testbed.harness import JOBS_PER_DAY, Api, Reply
from shared.aws.dynamodb import Table
from shared.aws.records import key_of
from shared.aws.stream import Record
from shared.core.attributes import Item
from shared.history.entries import entry
from shared.history.trail import AuditStore
from shared.history.video_reverts import VideoReverts
from shared.processing.daily_quota import QuotaStore
from shared.schema import AUDIT_TABLE_NAME, CHANGESET, VIDEO
from shared.videos.store import VideoStore


class AuditedService(BackgroundWork):
    """Background work of an API, including the audit function, which stores the audit trail."""

    def __init__(self, api: Api) -> None:
        super().__init__(api.table, api.clock)
        self.api = api
        self.trail = AuditStore(Table(AUDIT_TABLE_NAME, api.table.client, sleep=lambda _: None))
        self.reverts = VideoReverts(VideoStore(api.table), self.trail, QuotaStore(api.table, JOBS_PER_DAY))
        self._kept = 0

    def settle(self) -> None:
        """Process all stream records with the router, then with the audit function."""
        super().settle()
        self.keep(self.seen_records[self._kept :])
        self._kept = len(self.seen_records)

    def keep(self, records: Sequence[dict[str, Any]]) -> None:
        """Store the trail entries of these stream records, as the audit function does."""
        for made in (entry(Record(raw), DAYS) for raw in records):
            if made:
                self.add(made)

    def add(self, made: Item) -> None:
        """Store an entry of the trail."""
        self.trail.add(made)

    def forget(self, *entries: Item) -> None:
        """Delete entries of the trail, as DynamoDB does when they expire."""
        self.trail.table.batch_delete(list(map(key_of, entries)))

    def write(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        """Advance the clock by a second, send a request, and process its stream records.

        Raises AssertionError unless the request succeeds.
        """
        self.clock.advance(1)
        reply = self.api.request(method, path, json_body=body, **options)
        assert reply.status < 300, reply.body
        self.settle()
        return reply

    def create(self, user: str = "alice", **fields: Any) -> str:
        """Create a video, process its stream records, and return the video's id."""
        self.clock.advance(1)
        video_id = str(self.api.create(user, **fields)["videoId"])
        self.settle()
        return video_id

    def patch(self, video_id: str, user: str = "alice", **fields: Any) -> None:
        """Change fields of a video, and process the stream records."""
        self.write("PATCH", f"/v1/videos/{video_id}", fields, user=user)

    def revert(self, video_id: str, version: int, *, query: str = "", user: str = "alice", **body: Any) -> Reply:
        """Revert a video to an earlier version, and process the stream records."""
        self.clock.advance(1)
        wanted = {"toVersion": version} | body
        reply = self.api.post(f"/v1/videos/{video_id}/revert", wanted, query=query, user=user)
        self.settle()
        return reply

    def put(self, item: Item) -> None:
        """Write an item directly to the table."""
        self.table.write(self.table.put(item))

    def item(self, video_id: str) -> Item:
        """Return a video as it is stored."""
        item = self.table.get(VIDEO.key(videoId=video_id), consistent=True)
        assert item is not None
        return item

    def read_without_audit_fields(self, video_id: str) -> dict[str, Any]:
        """Return a video's document without `version` and `updatedAt`. Every write changes these two fields."""
        document = self.api.get(f"/v1/videos/{video_id}", user="admin").json
        return {name: value for name, value in document.items() if name not in ("version", "updatedAt")}

    def entries(self, video_id: str) -> list[Item]:
        """Return the trail entries of a video, newest first."""
        return list(self.trail.iterate_back(video_id, int(self.clock())))

    def of_last_request(self, *video_ids: str) -> Mapping[str, list[Item]]:
        """Return the entries of each video in `video_ids` that belong to the last change set of the first video."""
        id_ = self.entries(video_ids[0])[0][CHANGESET]
        return {
            video_id: [made for made in self.entries(video_id) if made.get(CHANGESET) == id_] for video_id in video_ids
        }
