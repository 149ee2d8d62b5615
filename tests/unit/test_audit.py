"""The audit trail: each change has exactly one entry in the table and one in the archive."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any, cast

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from functions.audit import handler as audit_handler
from local.stream_records import EXPIRY, Raw, stream_record
from local.testbed.background import FakeQueue
from local.testbed.harness import NOW, Context, FakeResources, create_audit_table
from local.testbed.streams import deliver, event, sequence_of
from local.testbed.stub import Stub, StubClient
from local.testbed.wire import raised
from shared.aws.dynamodb import LARGEST_BURST, Table, make_client
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.aws.stream import Record
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.settings import LambdaHandler
from shared.feed.change import change_of
from shared.feed.log import OLDEST, Feed, logs_of, shard_logs
from shared.history.entries import LARGEST_ENTRY, document, entry
from shared.history.trail import AuditStore
from shared.schema import JOB, SCHEMA_VERSION, VIDEO, VIEW_COUNTER
from shared.videos.video import mark_deleted, merge_patch, new_item, restore, stamp
from tests.integration.faults import Killed
from tests.logs import metrics

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
ALICE = Caller("alice", frozenset())
PROBE = Caller.job("probe")
DAYS = 400


def video(caller: Caller = ALICE, **content: Any) -> Any:
    """Return the first version of a video."""
    item = new_item(
        {"title": "A film", "visibility": "private"} | content,
        video_id=VIDEO_ID,
        owner="alice",
        created_at=NOW,
        status="uploaded",
    )
    return stamp(item, caller=caller, now=NOW, version=1)


def edited(item: Any, caller: Caller = ALICE, **patch: Any) -> Any:
    """Return the next version of a video, after a PATCH."""
    return stamped(merge_patch(item, patch), caller)


def stamped(item: Any, caller: Caller = ALICE) -> Any:
    """Return an item with the audit fields of its next version."""
    return stamp(item, caller=caller, now=NOW + 1, version=item["version"] + 1)


def job(state: str, *, attempt: int = 1, kind: str = "probe", **more: Any) -> Item:
    """Return a job in the given state."""
    return {
        **JOB.key(videoId=VIDEO_ID, kind=kind),
        "videoId": VIDEO_ID,
        "kind": kind,
        "owner": "alice",
        "state": state,
        "attempt": attempt,
        "inputHash": "0" * 32,
        "input": {"source": "s3://sources/film"},
        "progress": 0,
        "updatedAt": NOW,
        "updatedBy": "job:probe",
        "updatedAs": "job",
        "writeId": f"{state} {attempt} {sorted(more.items())}",
    } | more


def entry_of(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, **options: Any) -> Item | None:
    return entry(Record(stream_record(old, new, **options)), DAYS)


def audited(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, **options: Any) -> Item:
    audit_entry = entry_of(old, new, **options)
    assert audit_entry is not None
    return audit_entry


def changes(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[Item]:
    """Return the field changes that the audit entry of a write lists."""
    return cast(list[Item], audited(old, new)["changes"])


class TestVideos:
    def test_created_entry_lists_the_fields_that_were_set(self) -> None:
        audit_entry = audited(None, video(tags=["b", "a"], metadata={"k": 1}), sequence=7)
        assert document(audit_entry) == {
            "sequence": f"{7:021}",
            "videoId": VIDEO_ID,
            "entity": "video",
            "action": "created",
            "by": {"kind": "person", "id": "alice"},
            "at": NOW * 1000,
            "version": 1,
            "changes": [
                {"field": "/createdAt", "to": NOW},
                {"field": "/metadata", "to": {"k": 1}},
                {"field": "/origins", "to": {}},
                {"field": "/status", "to": "uploaded"},
                {"field": "/tags", "to": ["a", "b"]},
                {"field": "/title", "to": "A film"},
                {"field": "/userId", "to": "alice"},
                {"field": "/visibility", "to": "private"},
            ],
        }

    def test_entry_key_sorts_by_time_and_then_by_sequence(self) -> None:
        times = [(NOW, 9), (NOW, 10), (NOW + 1, 2), (NOW + 1, 10**30)]
        keys = [audited(None, video(), at=at, sequence=sequence)["sk"] for at, sequence in times]
        assert keys == sorted(keys)
        assert keys[0] == f"{NOW * 1000}#{9:040}"
        assert audited(None, video())["pk"] == f"VIDEO#{VIDEO_ID}"

    def test_entry_expires_after_the_configured_days(self) -> None:
        assert audited(None, video(), at=NOW + 0.9)["purgeAt"] == NOW + DAYS * 86400

    def test_changed_entry_has_old_and_new_values(self) -> None:
        before = video(description="old", category="film")
        after = edited(before, title="New", description=None, language="en")
        assert changes(before, after) == [
            {"field": "/description", "from": "old"},
            {"field": "/language", "to": "en"},
            {"field": "/title", "from": "A film", "to": "New"},
        ]
        assert audited(before, after)["action"] == "changed"
        assert audited(before, after)["version"] == 2

    def test_maps_are_compared_entry_by_entry(self) -> None:
        before = video(metadata={"codec": "h264", "gone": 1, "same": True}, thumbnails={"poster": {"url": "https://a"}})
        after = edited(
            before,
            metadata={"codec": "av1", "gone": None, "new": 2},
            thumbnails={"poster": {"width": 640}, "other": {"url": "https://b"}},
        )
        assert changes(before, after) == [
            {"field": "/metadata/codec", "from": "h264", "to": "av1"},
            {"field": "/metadata/gone", "from": 1},
            {"field": "/metadata/new", "to": 2},
            {"field": "/thumbnails/other", "to": {"url": "https://b"}},
            {"field": "/thumbnails/poster/width", "to": 640},
        ]

    def test_field_of_a_change_is_a_json_pointer(self) -> None:
        after = edited(video(), metadata={"a/b.c~d": 1})
        assert changes(video(), after) == [{"field": "/metadata/a~1b.c~0d", "to": 1}]

    @pytest.mark.parametrize(("one", "other"), [(True, 1), (0, False), ("1", 1), (1, 1.5), (None, 0)])
    def test_values_of_different_types_differ(self, one: Any, other: Any) -> None:
        assert changes(video(metadata={"k": one}), stamped(video(metadata={"k": other}))) == [
            {"field": "/metadata/k", "from": one, "to": other}
        ]

    def test_absent_and_null_values_differ(self) -> None:
        assert changes(video(metadata={"k": None}), stamped(video())) == [{"field": "/metadata/k", "from": None}]

    def test_order_of_tags_is_not_a_change(self) -> None:
        before = video(tags=["a", "b", "c"])
        assert changes(before, stamped(before | {"tags": {"c", "b", "a"}})) == []
        assert changes(before, stamped(before | {"tags": {"d"}})) == [
            {"field": "/tags", "from": ["a", "b", "c"], "to": ["d"]}
        ]

    def test_binary_values_are_listed_as_base64(self) -> None:
        before = video()
        assert changes(before, stamped(before | {"hash": b"\xff"})) == [{"field": "/hash", "to": "/w=="}]

    def test_internal_attributes_are_not_listed_as_changes(self) -> None:
        before = video()
        rewritten = stamped(before) | {
            "rel": "X",
            "relShard": 3,
            "schemaVersion": 2,
            "categoryShard": 1,
            "orderBy": "X",
            "orderValue": "x",
        }
        assert changes(before, rewritten) == []

    def test_every_version_has_an_entry_even_without_changes(self) -> None:
        before = video()
        audit_entry = audited(before, stamped(before))
        assert (audit_entry["action"], audit_entry["version"], audit_entry["changes"]) == ("changed", 2, [])

    def test_write_without_a_version_has_an_entry_only_if_fields_changed(self) -> None:
        before = video()
        assert entry_of(before, before | {"rel": "X", "relShard": 3}) is None
        assert changes(before, before | {"title": "by hand"}) == [
            {"field": "/title", "from": "A film", "to": "by hand"}
        ]

    def test_entry_stores_audit_fields_of_its_version_and_hides_them(self) -> None:
        audit_entry = audited(video(), edited(video(), title="New"))
        assert audit_entry["stamps"] == {"updatedAt": NOW + 1, "schemaVersion": SCHEMA_VERSION}
        assert "stamps" not in document(audit_entry)
        assert "stamps" not in audited(video(), None)

    def test_change_of_an_unknown_attribute_is_audited(self) -> None:
        before = video()
        assert changes(before, stamped(before | {"mood": "sad"})) == [{"field": "/mood", "to": "sad"}]

    def test_delete_and_restore_have_their_own_actions(self) -> None:
        before = video()
        deleted = stamped(mark_deleted(before, NOW))
        back = stamped(restore(deleted))
        assert [audited(before, deleted)["action"], audited(deleted, back)["action"]] == ["deleted", "restored"]
        assert {"field": "/status", "from": "uploaded", "to": "deleted"} in changes(before, deleted)
        assert {"field": "/status", "from": "deleted", "to": "uploaded"} in changes(deleted, back)

    def test_expiry_is_distinguished_from_a_removal(self) -> None:
        expired, removed = audited(video(), None, identity=EXPIRY), audited(video(), None)
        assert (expired["action"], expired["by"]) == ("expired", {"kind": "service", "id": "dynamodb.amazonaws.com"})
        assert (removed["action"], removed["by"]) == ("removed", {"kind": "service", "id": "unknown"})
        assert {"field": "/title", "from": "A film"} in removed["changes"]
        assert (removed["version"], removed["owner"]) == (1, "alice")

    def test_video_that_replaces_an_expired_one_is_created(self) -> None:
        before = edited(video(description="of somebody else"), title="Old")
        audit_entry = audited(before, video() | {"writeId": "another", "userId": "bob"})
        assert (audit_entry["action"], audit_entry["owner"]) == ("created", "bob")
        assert not any("from" in changed for changed in audit_entry["changes"])


class TestAuthors:
    def test_author_that_is_a_job_is_distinguished_from_a_person(self) -> None:
        before = video()
        assert audited(before, edited(before, PROBE, duration=5))["by"] == {"kind": "job", "id": "job:probe"}
        assert audited(before, edited(before, title="x"))["by"] == {"kind": "person", "id": "alice"}

    def test_author_without_a_recorded_kind_is_a_person(self) -> None:
        before = video()
        after = {name: value for name, value in edited(before, title="x").items() if name != "updatedAs"}
        assert audited(before, after)["by"] == {"kind": "person", "id": "alice"}

    def test_edit_that_bypassed_the_service_has_an_unknown_author(self) -> None:
        before = video()
        assert audited(before, before | {"title": "x"})["by"] == {"kind": "service", "id": "unknown"}
        waiting = job("queued")
        assert audited(waiting, waiting | {"state": "done"})["by"] == {"kind": "service", "id": "unknown"}

    def test_item_without_author_has_an_unknown_author(self) -> None:
        audit_entry = audited(None, {**VIDEO.key(videoId=VIDEO_ID), "title": "by hand"})
        assert audit_entry["by"] == {"kind": "service", "id": "unknown"}
        assert audit_entry["videoId"] == VIDEO_ID


class TestJobs:
    @pytest.mark.parametrize(
        ("old", "new", "action"),
        [
            (None, job("queued"), "queued"),
            (job("queued"), job("running"), None),
            (job("running"), job("running", progress=50), None),
            (job("running"), job("done", output={"posters": 3}), "done"),
            (job("running"), job("failed", error={"reason": "no video"}), "failed"),
            (job("running"), job("queued", attempt=2), "queued"),
            (job("queued"), job("queued", inputHash="1" * 32), "queued"),
            (job("queued"), job("queued", leaseUntil=NOW), None),
            (job("failed"), job("queued"), "queued"),
            (job("queued"), job("withdrawn"), "withdrawn"),
            (None, job("running"), None),
            (job("done"), None, None),
        ],
    )
    def test_job_outcomes_have_entries_and_heartbeats_have_none(
        self, old: Item | None, new: Item | None, action: str | None
    ) -> None:
        audit_entry = entry_of(old, new)
        assert (audit_entry and audit_entry["action"]) == action

    def test_job_entry_names_the_job_and_its_outcome(self) -> None:
        done = job("done", kind="transcode.720p", output={"uri": "s3://media/x"}, progress=100)
        assert document(audited(job("running", kind="transcode.720p", progress=50), done)) == {
            "sequence": f"{1:021}",
            "videoId": VIDEO_ID,
            "entity": "job",
            "kind": "transcode.720p",
            "action": "done",
            "by": {"kind": "job", "id": "job:probe"},
            "at": NOW * 1000,
            "attempt": 1,
            "changes": [
                {"field": "/output", "to": {"uri": "s3://media/x"}},
                {"field": "/state", "from": "running", "to": "done"},
            ],
        }


@pytest.mark.parametrize(
    "key",
    [
        VIEW_COUNTER.key(videoId=VIDEO_ID, shard=0),
        {"pk": f"VIDEO#{VIDEO_ID}", "sk": "UPLOAD#1"},
        {"pk": "IDEMPOTENCY#a#b#c", "sk": "#KEY"},
        {"pk": "USER#alice", "sk": "QUOTA#2026-01-01"},
    ],
    ids=lambda key: key["pk"],
)
def test_unaudited_items_are_not_read(key: Item) -> None:
    raw = stream_record(None, key)
    raw["dynamodb"]["NewImage"] = {"unreadable": {"NS": ["1"]}}
    assert entry(Record(raw), DAYS) is None


class TestSize:
    @staticmethod
    def _fits(audit_entry: Item) -> None:
        assert len(json.dumps(audit_entry, ensure_ascii=False, separators=(",", ":")).encode()) <= LARGEST_ENTRY

    def test_long_description_is_stored_complete(self) -> None:
        before = video(description="ü" * 5000)
        assert changes(before, edited(before, description="é" * 5000)) == [
            {"field": "/description", "from": "ü" * 5000, "to": "é" * 5000}
        ]

    def test_longest_values_are_truncated_when_an_entry_is_too_large(self) -> None:
        before = video(metadata={"huge": "ä" * 90_000, "large": "b" * 60_000, "small": "c" * 5000})
        audit_entry = audited(
            before, stamped(video(metadata={"huge": "d" * 190_000, "large": "e" * 60_000, "small": "f"}))
        )
        self._fits(audit_entry)
        assert audit_entry["changes"] == [
            {"field": "/metadata/huge", "from": "ä" * 1000, "fromBytes": 180_002, "to": "d" * 1000, "toBytes": 190_002},
            {"field": "/metadata/large", "from": "b" * 60_000, "to": "e" * 60_000},
            {"field": "/metadata/small", "from": "c" * 5000, "to": "f"},
        ]

    def test_truncated_map_keeps_the_beginning_of_its_json(self) -> None:
        before = video()
        audit_entry = audited(before, stamped(before | {"big": {f"k{n:06}": n for n in range(30_000)}}))
        self._fits(audit_entry)
        (only,) = audit_entry["changes"]
        assert only["to"].startswith('{"k000000":0,"k000001":1,')
        assert (len(only["to"]), only["toBytes"]) == (1000, 468_891)

    @pytest.mark.slow
    def test_changes_beyond_the_size_limit_are_omitted_and_counted(self) -> None:
        before = video(metadata={f"k{n:05}": 0 for n in range(20_000)})
        audit_entry = audited(before, stamped(video(metadata={f"k{n:05}": 1 for n in range(20_000)})))
        self._fits(audit_entry)
        assert len(audit_entry["changes"]) + audit_entry["omitted"] == 20_000
        assert len(audit_entry["changes"]) > 4000
        assert document(audit_entry)["omitted"] == audit_entry["omitted"]

    @pytest.mark.slow
    @pytest.mark.parametrize("value", [[1] * 120_000, [""] * 80_000, [{}] * 80_000, [True] * 49_000, "\x01" * 41_000])
    def test_value_stored_whole_fits_the_dynamodb_item_limit(self, value: Any) -> None:
        audit_entry = audited(video(), stamped(video() | {"x": value}))
        self._fits(audit_entry)
        assert _size(audit_entry) < 400 * 1024


def _size(value: Any) -> int:
    """Return the size in bytes as DynamoDB counts it. A number takes up to half a byte per digit, plus two."""
    if isinstance(value, dict):
        return sum(len(name.encode()) + _size(member) + 1 for name, member in value.items()) + 3
    if isinstance(value, list):
        return sum(_size(element) + 1 for element in value) + 3
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int | float):
        return len(str(value)) // 2 + 2
    return len(value.encode())


Send = Callable[[], dict[str, Any]]
Incident = Callable[[Send], dict[str, Any]]


def throttled(_: Send) -> dict[str, Any]:
    raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "Any")


def lose_response(send: Send) -> dict[str, Any]:
    send()
    raise ReadTimeoutError(endpoint_url="https://service")


def killed_before(_: Send) -> dict[str, Any]:
    raise Killed


def killed_after(send: Send) -> dict[str, Any]:
    send()
    raise Killed


INCIDENTS = (throttled, lose_response, killed_before, killed_after)


class PipelinedClient(StubClient):
    """Client that may send several requests before it awaits their responses, as the deployed client does."""

    def __init__(self, cloud: "Cloud") -> None:
        super().__init__(cloud.stub)
        self._cloud = cloud
        self._in_flight = 0
        self.max_in_flight = 0
        """Maximum number of requests in flight so far."""

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Apply a request immediately. The returned function returns its response, or raises its error."""
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            response = self._cloud.call(operation, lambda: self.stub.carry_out(operation, **parameters))
            finish = partial(_response_of, response)
        except Exception as error:
            finish = partial(raised, error)

        def await_response() -> Any:
            self._in_flight -= 1
            return finish()

        return await_response


def _response_of(response: Any) -> Any:
    return response


@dataclass
class Cloud:
    """DynamoDB in memory, and the part of S3 that the audit function uses. Tests inject incidents by the number of the
    call."""

    incidents: dict[int, Incident] = field(default_factory=dict)
    stub: Stub = field(default_factory=Stub)
    objects: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    pipelined: PipelinedClient | None = None
    """Client of the handler that was created last."""

    @property
    def items(self) -> dict[tuple[str, str], Item]:
        """Stored audit entries by partition and sort key. Excludes the entries of the feed."""
        return {(item["pk"], item["sk"]): item for item in self.stub.stored() if "CHANGES" not in item["pk"]}

    def ids_by_log(self) -> dict[str, list[str]]:
        """Return the ids of the changes in each log of the feed, in order. Asserts that the positions have no gaps."""
        feed = Feed(Table("VideoAudit", StubClient(self.stub)), lambda: NOW)
        logs: dict[str, list[str]] = {}
        for log in {item["pk"] for item in self.stub.stored() if "CHANGES" in item["pk"]}:
            read = feed.read(log, OLDEST, 10_000).entries
            assert [item.position for item in read] == list(range(1, len(read) + 1))
            logs[log] = [item.change["id"] for item in read]
            assert len(set(logs[log])) == len(logs[log])
        return logs

    def put_object(self, **parameters: Any) -> dict[str, Any]:
        """Store an object of the archive, like S3's PutObject."""

        def send() -> dict[str, Any]:
            assert parameters["Bucket"] == "archive"
            self.objects[parameters["Key"]] = parameters["Body"]
            return {}

        return self.call("PutObject", send)

    def function(self, attempts: int = 1) -> LambdaHandler:
        """Return a Lambda handler that uses this cloud."""
        # This object has the methods of both services' clients.
        client: Any = self
        self.pipelined = PipelinedClient(self)
        table = Table("VideoAudit", self.pipelined, attempts=attempts, sleep=lambda _: None)
        objects = Objects(client, attempts=attempts, sleep=lambda _: None)
        resources = FakeResources(table, lambda: NOW, audit=table, objects=objects, queues={"deliveries": FakeQueue()})
        return resources.make(audit_handler.lambda_handler)

    def deliver(self, *batches: Sequence[Raw], attempts: int = 1, retries: int = 10, bisect: bool = True) -> list[Raw]:
        """Deliver batches in sequence, and return the discarded records."""
        function = self.function(attempts)

        def invoke(event: dict[str, Any]) -> dict[str, Any]:
            response = function(event, Context())
            return self.call("answer", lambda: response)

        return [raw for batch in batches for raw in deliver(batch, invoke, retries=retries, bisect=bisect)]

    @property
    def lines(self) -> list[str]:
        """All lines of the archive, in the order of the objects' keys."""
        return [line for _, data in sorted(self.objects.items()) for line in data.decode().splitlines()]

    def call(self, name: str, send: Send) -> dict[str, Any]:
        """Send a call, and apply the incident that is set for its number."""
        incident = self.incidents.get(len(self.calls))
        self.calls.append(name)
        return incident(send) if incident else send()


def expected_lines(raws: Sequence[Raw]) -> list[str]:
    """Return the lines that the archive contains for these records, in order."""
    entries = [entry(Record(raw), DAYS) for raw in raws]
    return [json.dumps(document(item), ensure_ascii=False, separators=(",", ":")) for item in entries if item]


def history(count: int, *, start: int = 1) -> list[Raw]:
    """Return stream records of one changing video, mixed with records that are not audited."""
    raws, item = [], video()
    for sequence in range(start, start + count):
        if sequence % 3 == 1:
            raws.append(stream_record({**item, "rel": "X"}, item, sequence=sequence))
        else:
            changed = edited(item, title=f"Title {sequence}")
            raws.append(stream_record(item, changed, sequence=sequence))
            item = changed
    return raws


def poisoned(raw: Raw) -> Raw:
    """Return the record with an image that the function cannot decode."""
    return {**raw, "dynamodb": {**raw["dynamodb"], "NewImage": {"what": {"NS": ["1"]}}}}


HISTORY = history(9)


@cache
def without_incidents() -> Cloud:
    """Return the state after the delivery of HISTORY without incidents."""
    cloud = Cloud()
    assert cloud.deliver(HISTORY) == []
    return cloud


class TestAuditFunction:
    def test_batch_is_stored_and_then_archived_in_one_object(self) -> None:
        cloud = without_incidents()
        # Reads of the ends of two logs, six audit entries, and an append to each log.
        assert cloud.calls == ["GetItem"] * 2 + ["PutItem"] * (6 + 2) + ["PutObject", "answer"]
        # The key has the sequence of the first audited record (2), because record 1 is not audited.
        assert list(cloud.objects) == [f"audit/2025/06/15/{2:040}-{VIDEO_ID}.jsonl"]
        assert cloud.lines == expected_lines(HISTORY)
        assert [json.loads(line)["sequence"] for line in cloud.lines] == [f"{n:021}" for n in (2, 3, 5, 6, 8, 9)]

    def test_batch_without_an_entry_stores_no_object(self) -> None:
        cloud = Cloud()
        assert cloud.deliver(HISTORY[:1]) == []
        assert cloud.calls == ["answer"]

    @pytest.mark.parametrize("bisect", [True, False])
    @pytest.mark.parametrize("call", range(12))
    @pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.__name__)
    def test_each_entry_is_stored_once_when_any_call_fails(self, incident: Incident, call: int, bisect: bool) -> None:
        cloud = Cloud({call: incident})
        assert cloud.deliver(HISTORY, bisect=bisect) == []
        assert cloud.items == without_incidents().items
        assert cloud.lines == without_incidents().lines
        assert cloud.ids_by_log() == without_incidents().ids_by_log()

    @pytest.mark.parametrize("incident", [throttled, lose_response], ids=lambda incident: incident.__name__)
    @pytest.mark.parametrize("call", range(11))
    def test_single_fault_needs_no_redelivery_with_deployed_retries(self, incident: Incident, call: int) -> None:
        cloud = Cloud({call: incident})
        assert cloud.deliver(HISTORY, attempts=2) == []
        assert cloud.calls.count("answer") == 1
        assert (cloud.items, cloud.objects) == (without_incidents().items, without_incidents().objects)
        assert cloud.ids_by_log() == without_incidents().ids_by_log()

    def test_persistent_throttling_stops_at_the_first_throttled_record(self) -> None:
        cloud = Cloud(dict.fromkeys(range(4, 100), throttled))
        batch = HISTORY[:6]  # records 2, 3, 5 and 6 are audited
        assert cloud.deliver(batch, retries=0, bisect=False) == batch
        assert (len(cloud.items), cloud.objects) == (2, {})

    def test_failed_batch_is_processed_on_redelivery(self) -> None:
        cloud = Cloud(dict.fromkeys(range(8), throttled))
        assert cloud.deliver(HISTORY) == []
        assert (cloud.items, cloud.lines) == (without_incidents().items, without_incidents().lines)

    def test_batch_that_never_succeeds_is_discarded_and_not_archived(self) -> None:
        cloud = Cloud(dict.fromkeys(range(1000), throttled))
        discarded = cloud.deliver(HISTORY, retries=2)
        assert expected_lines(discarded) == expected_lines(HISTORY)
        assert (cloud.items, cloud.objects) == ({}, {})

    def test_failure_of_the_archive_fails_the_batch(self) -> None:
        cloud = Cloud({10: throttled})
        with pytest.raises(Unavailable):
            cloud.function()(event(*HISTORY), Context())

    @pytest.mark.parametrize("position", range(9))
    def test_poison_record_is_discarded_alone(self, position: int) -> None:
        batch = list(HISTORY)
        batch[position] = poisoned(batch[position])
        cloud = Cloud()
        assert cloud.deliver(batch, retries=2) == [batch[position]]
        assert cloud.lines == expected_lines([raw for raw in batch if raw is not batch[position]])
        assert len(cloud.items) == len(cloud.lines)

    def test_records_delivered_twice_and_in_reverse_produce_the_same_entries(self) -> None:
        cloud = Cloud()
        assert cloud.deliver(*([raw] for raw in reversed([*HISTORY, *HISTORY]))) == []
        assert cloud.items == without_incidents().items
        assert cloud.lines == without_incidents().lines

    def test_entries_of_two_videos_with_the_same_sequence_are_in_different_objects(self) -> None:
        # A sequence number is unique only within a shard of the stream.
        other = video() | VIDEO.key(videoId="0" * 8) | {"videoId": "0" * 8}
        cloud = Cloud()
        cloud.deliver([stream_record(None, video(), sequence=5)], [stream_record(None, other, sequence=5)])
        assert len(cloud.objects) == 2


def created_and_changed(*numbers: int) -> list[Raw]:
    """Return records that first create one video for each number, and then change each video."""
    records = {number: _other(number) for number in numbers}
    created = [stream_record(None, item, sequence=number) for number, item in records.items()]
    return created + [
        stream_record(item, edited(item, title="New"), sequence=100 + number) for number, item in records.items()
    ]


def _other(number: int) -> Any:
    video_id = f"{number:08x}-0000-4000-8000-000000000000"
    return video() | VIDEO.key(videoId=video_id) | {"videoId": video_id, "userId": f"owner-{number % 3}"}


CREATED_AND_CHANGED = created_and_changed(*range(1, 6))


@cache
def without_incidents_of_many() -> Cloud:
    """Return the state after the delivery of CREATED_AND_CHANGED without incidents."""
    cloud = Cloud()
    assert cloud.deliver(CREATED_AND_CHANGED) == []
    return cloud


class TestManyItems:
    def test_entries_of_many_items_are_stored_concurrently_in_bounded_bursts(self) -> None:
        cloud = Cloud()
        assert cloud.deliver(created_and_changed(*range(1, 41))) == []
        assert cloud.pipelined
        assert cloud.pipelined.max_in_flight == LARGEST_BURST
        cloud = Cloud()
        # The function reads the ends of two logs concurrently, and appends to both concurrently.
        assert cloud.deliver(HISTORY) == []
        assert cloud.pipelined
        assert cloud.pipelined.max_in_flight == 2

    @pytest.mark.parametrize("bisect", [True, False])
    @pytest.mark.parametrize("call", range(26))
    @pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.__name__)
    def test_each_entry_is_stored_and_published_once_when_any_call_fails(
        self, incident: Incident, call: int, bisect: bool
    ) -> None:
        quiet, cloud = without_incidents_of_many(), Cloud({call: incident})
        assert cloud.deliver(CREATED_AND_CHANGED, bisect=bisect) == []
        assert cloud.items == quiet.items
        assert cloud.lines == quiet.lines
        assert {log: sorted(ids) for log, ids in cloud.ids_by_log().items()} == {
            log: sorted(ids) for log, ids in quiet.ids_by_log().items()
        }

    def test_entry_is_not_stored_before_the_preceding_entry_of_its_item(self) -> None:
        first, second, other = CREATED_AND_CHANGED[0], CREATED_AND_CHANGED[5], CREATED_AND_CHANGED[1]
        ends = _ends(first, other)
        cloud = Cloud({ends: throttled})
        with pytest.raises(BatchProcessingError):
            cloud.function()(event(first, second, other), Context())
        assert cloud.items == {}
        cloud = Cloud({ends: throttled})
        with pytest.raises(BatchProcessingError):
            cloud.function()(event(first, other, second), Context())
        assert {key[0] for key in cloud.items} == {other["dynamodb"]["Keys"]["pk"]["S"]}

    def test_entry_stored_after_a_failed_one_is_counted_once_and_published_later(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cloud = Cloud({_ends(*CREATED_AND_CHANGED[:3]) + 1: throttled})  # the second of three entries
        function = cloud.function()
        reported = function(event(*CREATED_AND_CHANGED[:3]), Context())["batchItemFailures"]
        assert reported == [{"itemIdentifier": sequence_of(CREATED_AND_CHANGED[1])}]
        assert len(cloud.items) == 2
        assert len(cloud.lines) == 1
        assert function(event(*CREATED_AND_CHANGED[1:3]), Context()) == {"batchItemFailures": []}
        assert [line["VideosCreated"] for line in metrics(capsys) if "VideosCreated" in line] == [2, 1]
        assert sum(len(ids) for log, ids in cloud.ids_by_log().items() if log in shard_logs()) == 3
        assert len(cloud.lines) == 3


def _ends(*raws: Raw) -> int:
    """Return the number of requests that the function sends before it stores the first entry. Each request finds the
    end of one of the logs to which the changes of the new videos belong."""
    created = [entry(Record(raw), DAYS) for raw in raws]
    return len({log for item in created if item for log in logs_of(change_of(item))})


@pytest.mark.slow
@settings(max_examples=12)
@given(data=st.data())
def test_archive_has_each_entry_once_for_any_batching_and_redelivery(data: st.DataObject) -> None:
    shard = history(data.draw(st.integers(1, 30), "records"))
    poison = data.draw(st.sets(st.integers(0, len(shard) - 1), max_size=2), "poison")
    for position in poison:
        shard[position] = poisoned(shard[position])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(shard)), max_size=4), "cuts") | {0, len(shard)})
    batches = [shard[begin:end] for begin, end in pairwise(cuts)]
    incidents = data.draw(st.dictionaries(st.integers(0, 60), st.sampled_from(INCIDENTS), max_size=8), "incidents")
    cloud = Cloud(incidents)

    # Retries outnumber incidents, so only undecodable records are discarded. Bisection isolates them from the other
    # records of a batch.
    discarded = cloud.deliver(*batches, retries=10)

    good = [raw for position, raw in enumerate(shard) if position not in poison]
    assert discarded == [raw for position, raw in enumerate(shard) if position in poison]
    assert cloud.lines == expected_lines(good)
    assert [
        json.dumps(document(item), ensure_ascii=False, separators=(",", ":")) for _, item in sorted(cloud.items.items())
    ] == cloud.lines


@pytest.mark.slow
@settings(max_examples=8)
@given(data=st.data())
def test_rereading_a_shard_from_any_record_loses_no_entry(data: st.DataObject) -> None:
    shard = history(20)
    cloud = Cloud(data.draw(st.dictionaries(st.integers(0, 60), st.sampled_from(INCIDENTS), max_size=5)))
    for _ in range(2):
        begin = data.draw(st.integers(0, 20))
        size = data.draw(st.integers(1, 20))
        cloud.deliver(*(shard[position : position + size] for position in range(0, 20, size)))
        cloud.deliver(*(shard[position : position + size] for position in range(begin, 20, size)))
    assert set(cloud.lines) == set(expected_lines(shard))
    assert len(cloud.items) == len(expected_lines(shard))


def test_audit_function_writes_the_same_to_a_mocked_table_and_bucket() -> None:
    with mock_aws():
        client = make_client()
        create_audit_table(client, "VideoAudit")
        s3 = make_s3_client()
        s3.create_bucket(Bucket="archive")
        store = AuditStore(Table("VideoAudit", client, sleep=lambda _: None))
        resources = FakeResources(store.table, lambda: NOW, audit=store.table, objects=Objects(s3))
        function = resources.make(audit_handler.lambda_handler)
        for _ in range(2):
            assert function(event(*HISTORY), Context()) == {"batchItemFailures": []}

        page = store.list_for_video(VIDEO_ID, NOW, ascending=True)
        (listed,) = s3.list_objects_v2(Bucket="archive")["Contents"]
        archived = s3.get_object(Bucket="archive", Key=listed["Key"])

        assert page.items == [item for _, item in sorted(without_incidents().items.items())]
        assert page.resume is None
        assert (listed["Key"], archived["ContentType"]) == (
            next(iter(without_incidents().objects)),
            "application/x-ndjson",
        )
        assert archived["Body"].read() == next(iter(without_incidents().objects.values()))
