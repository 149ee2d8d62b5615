"""Past versions after four hundred random writes: each equals the response recorded at its time, or is reported as
unknown.

Users' writes are requests to the API, and jobs write through their store. The router and the audit function process the
stream records.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, cast

import pytest
from moto import mock_aws

from local.stream_records import EXPIRY, Raw
from local.testbed.background import MEDIA, RENDITIONS, BackgroundWork, make_audit
from local.testbed.harness import (
    LINKS,
    NOW,
    Api,
    Clock,
    Context,
    create_audit_table,
    create_table,
    make_api,
    remove_video,
)
from local.testbed.streams import deliver, event
from local.testbed.stub import Stub, StubClient
from local.testbed.wire import unconditional_puts
from shared.aws.dynamodb import Table, make_client
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Gone, NotFound, ServiceError, TrailBehind
from shared.entities import Video
from shared.history.as_of import PastVersion, find_version, find_version_at, versions
from shared.history.entries import UNKNOWN
from shared.history.trail import AuditStore
from shared.schema import AUDIT_TABLE_NAME, TABLE_NAME, VIDEO
from shared.videos import video
from tools.importing import video_item

WRITES = 400
VIDEOS = 8
MAX_VERSIONS_LOST = 10
"""Maximum number of recorded versions of a video that the test may remove."""
DAY = 24 * 3600
KEYS = ("plain", "a.b", "a/b", "~", "~1", "%", "ü", " ", '"')
TAGS = ("a", "A", "b", "ü", "two words")
NAMES = ("poster", "poster-1.jpg", "one.two", "~", "1080p")
VALUES: tuple[Any, ...] = ("", "text", 0, 1, -1.5, 1e-100, 2**53 - 1, 1e15, True, False)
TRANSCODER: dict[str, Any] = {"user": "transcoder", "scopes": "videos/transcode"}


@dataclass
class RecordedDocuments:
    """Recorded documents of one video since its last creation, without view counts."""

    by_version: dict[int, str] = field(default_factory=dict)
    by_second: dict[int, str] = field(default_factory=dict)


class Chronicle:
    """Random writes of videos. After each write, the test records the documents of the changed videos."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        client = make_client()
        create_table(client, TABLE_NAME)
        create_audit_table(client, AUDIT_TABLE_NAME)
        self.clock = Clock()
        self.table = Table(TABLE_NAME, client, sleep=lambda _: None)
        self.api: Api = make_api(self.table, self.clock)
        self.background = BackgroundWork(self.table, self.clock)
        self.recorded: dict[str, RecordedDocuments] = {}
        self.done: defaultdict[str, int] = defaultdict(int)
        self._read = 0
        """Number of processed stream records."""
        self.removed: dict[str, Item] = {}
        """Videos that were removed, as an export has them."""
        kinds: list[tuple[int, Callable[[str], object]]] = [
            (30, self.patch),
            (6, self.delete_or_restore),
            (4, self.batch),
            (4, self.next_status),
            (4, self.arrive),
            (8, self.probe),
            (10, self.picture),
            (12, self.report),
            (10, self.choose_picture),
            (4, self.fail),
            (5, self.retry),
            (3, self.settle),
            (4, self.make_older),
            (4, self.edit_by_hand),
            (1, self.remove),
            (6, self.reimport),
        ]
        self._weights, self._kinds = zip(*kinds, strict=True)

    def write(self) -> None:
        """Write until VIDEOS videos have WRITES versions."""
        for _ in range(VIDEOS):
            self.create()
        for kind in (self.make_older, self.settle):
            for video_id in list(self.recorded)[:3]:
                self.perform(kind, video_id)
        while sum(len(recorded.by_version) for recorded in self.recorded.values()) < WRITES:
            if self.random.random() < 0.7:
                self.clock.advance(self.random.choice((1, 1, 1, 2, 40, 3000)))
            (kind,) = self.random.choices(self._kinds, self._weights)
            video_id = self.random.choice(list(self.recorded))
            self.perform(kind, video_id)

    def perform(self, kind: Callable[[str], object], video_id: str) -> None:
        """Write, run the background work, and record the document."""
        kind(video_id)
        self.background.settle()
        self.record(kind.__name__)

    def record(self, kind: str) -> None:
        """Record the current documents of changed videos, as their owners see them."""
        changed = {
            raw["dynamodb"]["Keys"]["pk"]["S"].removeprefix("VIDEO#")
            for raw in self.background.seen_records[self._read :]
        }
        self._read = len(self.background.seen_records)
        for video_id in sorted(changed & self.recorded.keys()):
            recorded = self.recorded[video_id]
            reply = self.api.get(f"/v1/videos/{video_id}", user="admin")
            if reply.status == 404:
                continue
            document = {name: value for name, value in reply.json.items() if name != "viewCount"}
            version, read = document["version"], canonical(document)
            self.done[kind] += read != recorded.by_version.get(version)
            recorded.by_version[version] = recorded.by_second[self.now] = read

    @property
    def now(self) -> int:
        """Current time in whole seconds since the epoch."""
        return int(self.clock.now)

    def stored(self, video_id: str) -> Item:
        """Return the stored item of a video, or `{}`."""
        return self.table.get(VIDEO.key(videoId=video_id), consistent=True) or {}

    def some(self, values: Sequence[Any], most: int = 4) -> list[Any]:
        """Return at most `most` random values."""
        return self.random.sample(values, self.random.randint(0, min(most, len(values))))

    def fields(self) -> Item:
        """Return a few fields with random values."""
        pick = self.random.choice
        every: dict[str, Any] = {
            "title": pick(("A film", "A film 🎬", "Another")),
            "description": pick((None, "", "Two\nlines")),
            "duration": pick((None, 0, 1000)),
            "fileSize": pick((None, 7)),
            "format": pick((None, "mp4", "webm")),
            "resolution": pick((None, "640x360")),
            "videoCodec": pick((None, "h264")),
            "audioCodec": pick((None, "aac")),
            "frameRate": pick((None, 25, 23.976)),
            "resolutions": {
                name: pick((None, "s3://bucket/1", "s3://bucket/2")) for name in self.some(("one", "1080p"))
            },
            "tags": pick((None, [], self._tags())),
            "category": pick((None, "film", "news")),
            "releaseYear": pick((None, 1985)),
            "language": pick((None, "en", "mi")),
            "seriesId": pick((None, "3f2504e0-4f89-41d3-9a0c-0305e82c3301")),
            "visibility": pick(("public", "private")),
            "publishAt": pick((None, self.now - 60, self.now + 2)),
            "expiresAt": pick((None, self.now + 2, self.now + 5000)),
            "metadata": pick((None, {}, {key: pick((None, *VALUES)) for key in self.some(KEYS)})),
            "thumbnails": {
                name: pick((None, {"url": "https://example.com/1"}, {"url": "https://example.com/2", "width": 3}))
                for name in self.some([name for name in NAMES if name != "~"], 2)
            },
        }
        return {name: every[name] for name in self.some(sorted(every), 5) or ["title"]}

    def _tags(self) -> list[str]:
        return [tag for tag in self.some(TAGS) if tag != "A"]

    def create(self) -> None:
        """Create a video as a user, or as an admin with server fields."""
        content = {name: value for name, value in self.fields().items() if value is not None and value != {}}
        for name in ("metadata", "resolutions", "thumbnails"):
            content[name] = {key: value for key, value in content.get(name, {}).items() if value is not None}
        if self.random.random() < 0.5:
            video_id = self.api.create(**content)["videoId"]
        else:
            own = {"userId": "bob", "createdAt": NOW - 7 * DAY, "status": "ready"}
            video_id = self.api.create("admin", **content, **own)["videoId"]
        self.recorded[str(video_id)] = RecordedDocuments()
        self.background.settle()
        self.record("create")

    def patch(self, video_id: str) -> None:
        """Patch some fields. The API may refuse the patch."""
        if self.stored(video_id).get("status") == "deleted":
            self.delete_or_restore(video_id)
        self.api.patch(f"/v1/videos/{video_id}", self.fields(), user="admin")

    def batch(self, video_id: str) -> None:
        """Patch several videos in batches, and one of them twice."""
        others = self.some(list(self.recorded), 3)
        operations: list[Item] = [
            {"op": "patch", "videoId": id_, "patch": self.fields()} for id_ in (video_id, *others, video_id)
        ]
        operations.append({"op": "delete", "videoId": self.random.choice(operations)["videoId"]})
        # one operation per batch, because otherwise versions would exist that the test has not read
        for operation in operations:
            assert self.api.post("/v1/videos/batch", {"operations": [operation]}, user="admin").status == 200
            self.background.settle()
            self.record("batch")

    def next_status(self, video_id: str) -> None:
        """Set a random status."""
        status = self.random.choice(("uploaded", "processing", "ready", "failed"))
        self.api.patch(f"/v1/videos/{video_id}", {"status": status}, user="admin")

    def delete_or_restore(self, video_id: str) -> None:
        """Delete the video, or restore it."""
        if self.stored(video_id).get("status") == "deleted":
            self.api.post(f"/v1/videos/{video_id}/restore", user="admin")
        elif self.random.random() < 0.5:
            self.api.delete(f"/v1/videos/{video_id}", user="admin")

    def arrive(self, video_id: str) -> None:
        """Deliver the arrival of a new source file."""
        if self.stored(video_id):
            self.background.arrive(video_id, upload=f"{self.now:012}", etag=f"e{self.now}")

    def _worked(self, queue: str, edit: Callable[[Any, Video], Video]) -> None:
        messages = self.background.queues[queue].sent
        if not messages:
            return
        message = self.background.message(queue, self.random.choice(messages)["kind"])
        messages.remove(
            next(body for body in messages if body["videoId"] == message.videoId and body["kind"] == message.kind)
        )
        worker = Caller.job(queue)
        if self.background.jobs.claim(message.job_attempt, worker, self.now):
            self.background.jobs.complete(message.job_attempt, {}, worker, self.now, lambda item: edit(message, item))

    def probe(self, _: str) -> None:
        """Complete a probe job."""
        facts = {"duration": self.random.randint(1, 9), "format": "mp4", "frameRate": 25.0}
        self._worked("probe", lambda _, item: video.apply_probe(item, MEDIA, facts, RENDITIONS))

    def picture(self, _: str) -> None:
        """Complete a thumbnails job."""
        url = f"s3://media/thumbnails/{self.random.randint(0, 2)}.jpg"
        self._worked(
            "thumbnails", lambda message, item: video.apply_pictures(item, {message.kind: {"url": url, "width": 2}})
        )

    def report(self, _: str) -> None:
        """Report the state of a transcode job."""
        messages = self.background.queues["transcode"].sent
        if not messages:
            return
        kind = self.random.choice(messages)["kind"]
        message = self.background.message("transcode", kind)
        state = self.random.choice(("running", "done", "done", "failed"))
        more: dict[str, Item] = {"done": {"uri": message.output, "fileSize": 5}, "failed": {"reason": "It broke."}}
        body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": state, **more.get(state, {})}
        path = f"/v1/videos/{message.videoId}/renditions/{kind.partition('.')[2]}"
        self.api.request("PUT", path, json_body=body, **TRANSCODER)
        if state != "running":
            messages[:] = [body for body in messages if (body["videoId"], body["kind"]) != (message.videoId, kind)]

    def fail(self, _: str) -> None:
        """Fail a job."""
        for queue in ("probe", "thumbnails"):
            if messages := self.background.queues[queue].sent:
                message = self.background.message(queue, messages[-1]["kind"])
                messages.pop()
                self.background.jobs.fail(message.job_attempt, "It broke.", Caller.job(queue), self.now, retry=False)
                return

    def retry(self, video_id: str) -> None:
        """Retry all failed jobs of a video."""
        for kind, state in self.background.states(video_id).items():
            if state == "failed":
                self.api.post(f"/v1/videos/{video_id}/jobs/{kind}/retry", user="admin")

    def choose_picture(self, video_id: str) -> None:
        """Choose another poster frame."""
        self.api.post(f"/v1/videos/{video_id}/thumbnail", {"position": self.random.randint(0, 1_000_000)}, user="admin")

    def settle(self, video_id: str) -> None:
        """Upgrade the video to the current schema, and update its index entries for the current time."""
        self.background.videos.settle(video_id, self.now)

    def make_older(self, video_id: str) -> None:
        """Replace the video by a video of the previous schema version. A later upgrade converts it."""
        stored = self.stored(video_id)
        if stored and self._is_young(video_id):
            self.remove(video_id)
            self.clock.advance(100)  # an import occurs at another time than the deletion
            self._put(
                video_item(stored, Caller.job("import"), self.now)
                | {"schemaVersion": 2, "tags": {"a", "A", *stored.get("tags", ())}}
            )

    def edit_by_hand(self, video_id: str) -> None:
        """Edit the item directly. The edit may add attributes that the service does not define, but keeps."""
        stored = self.stored(video_id)
        if stored:
            extra: Item = self.random.choice(
                ({}, {"deep": {"er": {}}}, {"deep": {"er": {"a/b": [1, {"x": None}]}, "n": 1e21}})
            )
            edit: Item = self.random.choice(({"extra": extra}, {"description": "By hand"}, {"metadata": {}}))
            self._put(stored | edit)

    def _put(self, item: Item) -> None:
        parameters = self.table.put(item).parameters
        self.table.client.put_item(TableName=parameters["TableName"], Item=parameters["Item"])

    def remove(self, video_id: str) -> None:
        """Delete the video permanently, as its expiry does."""
        stored = self.stored(video_id)
        if stored and self._is_young(video_id):
            remove_video(self.table, video_id)
            self.removed[video_id] = stored
            for recorded in (self.recorded[video_id].by_version, self.recorded[video_id].by_second):
                recorded.clear()
            self.background.settle()

    def _is_young(self, video_id: str) -> bool:
        """Return whether few documents of the video are recorded. The removal of the video discards these documents."""
        return len(self.recorded[video_id].by_version) <= MAX_VERSIONS_LOST

    def reimport(self, _: str) -> None:
        """Create a removed video again: either import its last state with the tools, or create a new video with its
        id."""
        if not self.removed:
            return
        video_id, stored = self.removed.popitem()
        if self.stored(video_id):
            return
        self.clock.advance(100)
        if self.random.random() < 0.5:
            self._put(video_item(stored, Caller.job("import"), self.now))
        else:
            assert self.api.create("admin", videoId=video_id, userId="alice")

    @cached_property
    def records(self) -> list[Raw]:
        """Return all stream records in order."""
        return [
            raw | {"userIdentity": EXPIRY} if raw["eventName"] == "REMOVE" else raw
            for raw in self.background.seen_records
        ]

    def existing_videos(self) -> Iterator[tuple[str, RecordedDocuments, Item]]:
        """Yield the id, the recorded documents and the stored item of each existing video."""
        for video_id, recorded in self.recorded.items():
            if stored := self.stored(video_id):
                yield video_id, recorded, stored


class Trail:
    """Audit trail that the audit function writes for the stream records that it receives."""

    def __init__(self) -> None:
        self.table = Table(AUDIT_TABLE_NAME, StubClient(Stub()))
        self._function = make_audit(self.table)

    def deliver_records(self, records: Sequence[Raw]) -> None:
        """Deliver stream records to the audit function."""
        if records:
            assert self._function(event(*records), Context()) == {"batchItemFailures": []}

    def entries(self, video_id: str) -> list[Item]:
        """Return the entries of a video, newest first."""
        return list(AuditStore(self.table).iterate_back(video_id, 0))

    def partitions(self) -> dict[str, Any]:
        """Return the stored items of all videos and playlists. The feed is omitted, because its order depends on
        deliveries."""
        stored = self.table.client.stub.partitions
        return {key: items for key, items in stored.items() if "CHANGES#" not in key}


@pytest.fixture(scope="module")
def chronicle() -> Iterator[Chronicle]:
    """Return the random writes and the recorded documents."""
    with mock_aws():
        written = Chronicle(seed=17)
        written.write()
        yield written


@pytest.fixture(scope="module")
def complete(chronicle: Chronicle) -> Trail:
    """Return the trail after the delivery of all records."""
    trail = Trail()
    unconditional = unconditional_puts(trail.table.client)
    trail.deliver_records(chronicle.records)
    assert unconditional == []
    return trail


def canonical(value: Any) -> str:
    """Return the value as JSON, because in Python 1 equals True."""
    return json.dumps(value, sort_keys=True)


def as_read(version: PastVersion) -> Item:
    """Return the document of a version, for comparison with recorded documents."""
    document = LINKS.to_urls(version.document())
    assert document.pop("without") == ["viewCount"]
    return document


class RepeatableVersions:
    """Past versions of a video that can be iterated repeatedly. Each iteration ends with the same error, if there is
    one."""

    def __init__(self, item: Item, entries: Sequence[Item], now: int) -> None:
        self.versions: list[PastVersion] = []
        self.error: ServiceError | None = None
        self._read: dict[int, str] = {}
        try:
            for version in versions(cast("Video", item), entries, now):
                self.versions.append(version)
        except ServiceError as error:
            self.error = error

    def at_version(self, number: int) -> str | type[ServiceError]:
        """Return the result for a version: the document, or the error's class."""
        return self._outcome(find_version, number)

    def at_time(self, second: int) -> str | type[ServiceError]:
        """Return the result for a time: the document, or the error's class."""
        return self._outcome(find_version_at, second)

    def _outcome(
        self, find: Callable[["RepeatableVersions", int], PastVersion], number: int
    ) -> str | type[ServiceError]:
        try:
            version = find(self, number)
        except ServiceError as error:
            return type(error)
        if id(version) not in self._read:
            self._read[id(version)] = canonical(as_read(version))
        return self._read[id(version)]

    def __iter__(self) -> Iterator[PastVersion]:
        return chain(self.versions, self._end())

    def _end(self) -> Iterator[PastVersion]:
        if self.error:
            raise self.error
        yield from ()


def seconds_of(recorded: RecordedDocuments, until: int) -> Iterator[tuple[int, str]]:
    """Yield each second of a recorded read, the second before it, and `until`, with the document at that time.

    Between two reads, a document does not change.
    """
    read = ""
    for second in sorted({*recorded.by_second, *(second - 1 for second in recorded.by_second), until}):
        read = recorded.by_second.get(second, read)
        if read:
            yield second, read


def test_every_kind_of_write_occurred(chronicle: Chronicle) -> None:
    kinds = {kind.__name__ for kind in chronicle._kinds} - {"remove"} | {"create"}
    assert kinds <= {kind for kind, count in chronicle.done.items() if count}


def test_every_past_version_equals_the_document_read_then(chronicle: Chronicle, complete: Trail) -> None:
    read = make_api_over(chronicle, complete)
    compared = 0
    for video_id, recorded, _ in chronicle.existing_videos():
        for number, expected in recorded.by_version.items():
            reply = read.get(f"/v1/videos/{video_id}", query=f"version={number}", user="admin")
            assert reply.status == 200, reply.body
            document = reply.json
            assert document.pop("without") == ["viewCount"]
            assert canonical(document) == expected
            compared += 1
        assert read.get(f"/v1/videos/{video_id}", query=f"version={number + 1}", user="admin").status == 404
    assert compared >= WRITES


def make_api_over(chronicle: Chronicle, trail: Trail) -> Api:
    """Return the service with the written videos and this trail."""
    return make_api(chronicle.table, chronicle.clock, audit=trail.table)


def test_parameter_as_of_every_second_equals_the_document_read_then(chronicle: Chronicle, complete: Trail) -> None:
    for video_id, recorded, stored in chronicle.existing_videos():
        past = RepeatableVersions(stored, complete.entries(video_id), chronicle.now)
        for second, expected in seconds_of(recorded, chronicle.now):
            assert past.at_time(second) == expected
        assert past.at_time(min(recorded.by_second) - 1) is NotFound


@pytest.mark.parametrize("seed", range(3))
def test_duplicate_late_and_reordered_records_give_the_same_trail(
    chronicle: Chronicle, complete: Trail, seed: int
) -> None:
    chance = random.Random(seed)
    rebuilt = Trail()
    unconditional = unconditional_puts(rebuilt.table.client)
    shards: list[list[Raw]] = [[] for _ in range(4)]
    for raw in chronicle.records:  # the records of a partition stay in one shard, and in order
        shards[sum(raw["dynamodb"]["Keys"]["pk"]["S"].encode()) % len(shards)].append(raw)

    def invoke(event: dict[str, Any]) -> dict[str, Any]:
        if chance.random() < 0.1:
            raise ConnectionError
        records = event["Records"]
        done = chance.randint(1, len(records))
        rebuilt.deliver_records(records[:done])
        if chance.random() < 0.1:
            raise ConnectionError  # the response is lost, so the batch is delivered again
        failures = [{"itemIdentifier": raw["dynamodb"]["SequenceNumber"]} for raw in records[done : done + 1]]
        return {"batchItemFailures": failures}

    while any(shards):
        shard = chance.choice([shard for shard in shards if shard])
        size = chance.randint(1, 50)
        batch = shard[:size]
        del shard[:size]
        assert deliver(batch, invoke, retries=1000) == []
        if chance.random() < 0.2:  # the batch is read again from a random position
            assert deliver(batch[chance.randrange(len(batch)) :], invoke, retries=1000) == []
    assert unconditional == []
    assert rebuilt.partitions() == complete.partitions()


@pytest.mark.parametrize("late", [30, 100, 300])
def test_late_records_never_give_a_wrong_version(chronicle: Chronicle, complete: Trail, late: int) -> None:
    late_sequences = {raw["dynamodb"]["SequenceNumber"] for raw in chronicle.records[-late:]}
    results = set()
    for video_id, recorded, stored in chronicle.existing_videos():
        entries = [entry for entry in complete.entries(video_id) if entry["sequence"] not in late_sequences]
        past = RepeatableVersions(stored, entries, chronicle.now)
        for number, expected in recorded.by_version.items():
            results.add(result := past.at_version(number))
            assert result in (expected, TrailBehind, Gone)
        for second, expected in seconds_of(recorded, chronicle.now):
            assert past.at_time(second) in (expected, TrailBehind, Gone)
    assert len(results) > VIDEOS
    assert TrailBehind in results


def test_missing_entry_never_gives_a_wrong_version(chronicle: Chronicle, complete: Trail) -> None:
    chance = random.Random(5)
    results = set()
    for video_id, recorded, stored in chronicle.existing_videos():
        entries = complete.entries(video_id)
        by_hand = [position for position, entry in enumerate(entries) if entry["by"] == UNKNOWN]
        for position in {0, *by_hand[:3], *chance.sample(range(len(entries)), min(4, len(entries)))}:
            remaining = [entry for entry in entries if entry is not entries[position]]
            past = RepeatableVersions(stored, remaining, chronicle.now + chance.choice((0, 2 * DAY)))
            for number, expected in recorded.by_version.items():
                results.add(result := past.at_version(number))
                assert result in (expected, TrailBehind, Gone)
            for second, expected in chance.sample(list(seconds_of(recorded, chronicle.now)), 20):
                assert past.at_time(second) in (expected, TrailBehind, Gone)
    assert {TrailBehind, Gone} < results
