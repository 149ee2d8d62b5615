"""Arrivals of source videos: S3 notifications, repeated and out of order, compared with the uploads that clients
announced."""

import itertools
import random
from typing import Any
from urllib.parse import quote_plus

import pytest
from moto.core.models import botocore_stubber

from functions.arrivals import handler as handler_module
from local.testbed.harness import (
    NOW,
    SOURCES_BUCKET,
    Api,
    Clock,
    Context,
    FakeResources,
    make_api,
    record_operations,
    remove_video,
)
from local.testbed.streams import sqs_event
from shared import schema
from shared.aws.dynamodb import Table
from shared.aws.expressions import change_between
from shared.aws.s3 import Objects
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler
from tests.integration.faults import (
    FaultLine,
    Killed,
    kill_after,
    kill_before,
    lose_request,
    lose_response,
    run_before_request,
    s3_refusal,
    throttle,
)

SOURCE = b"not really a film"
UNKNOWN_KEY = "3f2504e0-4f89-41d3-9a0c-0305e82c3301/019775a1c00-9f86d081884c7d65"


CALLS = {b"a good film": 5, b"": 6}
"""Number of calls that an arrival sends to DynamoDB and S3, by content of the source video. The empty file needs one
more, which records the refusal."""


@pytest.fixture
def api(table: Table, clock: Clock, objects: Objects) -> Api:
    """Return the service with S3 buckets."""
    return make_api(table, clock, objects)


@pytest.fixture
def arrivals(table: Table, clock: Clock, objects: Objects) -> LambdaHandler:
    """Return the Lambda handler for S3 notifications."""
    return FakeResources(table, clock, objects=objects).make(handler_module.lambda_handler)


def _created(*keys: str, bucket: str = SOURCES_BUCKET, name: str = "ObjectCreated:Put") -> dict[str, Any]:
    """Return a notification as S3 sends it. Its size and ETag are wrong, because the function must not trust them."""
    return {
        "Records": [
            {
                "eventSource": "aws:s3",
                "eventName": name,
                "s3": {"bucket": {"name": bucket}, "object": {"key": quote_plus(key), "size": 99, "eTag": "stale"}},
            }
            for key in keys
        ]
    }


def _deliver(arrivals: LambdaHandler, *bodies: Any) -> list[str]:
    """Deliver messages in one batch, and return the ids of the failed messages."""
    response = arrivals(sqs_event(*bodies), Context())
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


def _begin(api: Api, video_id: str, size: int = len(SOURCE), kind: str = "video/mp4") -> str:
    """Begin an upload, and return the key of its source video."""
    reply = api.post(f"/v1/videos/{video_id}/upload", {"contentType": kind, "fileSize": size})
    api.clock.advance(0.01)
    assert reply.status == 201, reply.body
    return f"{video_id}/{reply.json['uploadId']}"


def _upload(api: Api, objects: Objects, video_id: str, data: bytes = SOURCE, kind: str = "video/mp4") -> str:
    """Begin an upload and store a file with the announced size and type. Return its key."""
    key = _begin(api, video_id, len(data), kind)
    objects.put(SOURCES_BUCKET, key, data, kind)
    return key


def _video(table: Table, video_id: str) -> Item:
    item = table.get(schema.VIDEO.key(videoId=video_id))
    assert item
    return item


def _upload_state(table: Table, key: str) -> str:
    video_id, _, upload_id = key.partition("/")
    item = table.get(schema.UPLOAD.key(videoId=video_id, uploadId=upload_id))
    assert item
    return str(item["state"])


class TestAccepted:
    def test_arrived_file_becomes_the_source_of_the_video(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        video_id = api.create()["videoId"]
        key = _upload(api, objects, video_id)
        facts = objects.head(f"s3://{SOURCES_BUCKET}/{key}")
        assert facts
        api.clock.now = NOW + 60

        assert _deliver(arrivals, _created(key)) == []

        item = _video(table, video_id)
        assert item["source"] == {
            "uploadId": key.partition("/")[2],
            "uri": f"s3://{SOURCES_BUCKET}/{key}",
            "etag": facts.etag,
            "fileSize": len(SOURCE),
            "contentType": "video/mp4",
            "arrivedAt": NOW + 60,
        }
        assert (item["status"], item["updatedBy"], item["updatedAs"]) == ("processing", "job:arrivals", "job")
        assert _upload_state(table, key) == "received"
        document = api.get(f"/v1/videos/{video_id}").json
        assert document["source"] == {
            "uploadId": key.partition("/")[2],
            "contentType": "video/mp4",
            "fileSize": len(SOURCE),
            "arrivedAt": NOW + 60,
        }

    def test_arrival_only_reads_and_updates(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        key = _upload(api, objects, api.create()["videoId"])
        with record_operations(table.client) as operations:
            _deliver(arrivals, _created(key))
        assert [operation.name for operation in operations] == ["GetItem", "UpdateItem", "GetItem", "UpdateItem"]

    def test_multipart_upload_is_accepted(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        key = _upload(api, objects, api.create()["videoId"])
        assert _deliver(arrivals, _created(key, name="ObjectCreated:CompleteMultipartUpload")) == []
        assert "source" in _video(table, key.partition("/")[0])

    def test_new_source_removes_outputs_of_the_former_source(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        video_id = api.publish("alice")["videoId"]
        _deliver(arrivals, _created(_upload(api, objects, video_id)))
        table.write(
            table.update(
                schema.VIDEO.key(videoId=video_id),
                change_between({}, {"pictures": {"poster": {"url": "s3://x/y"}}, "posterTime": 5, "status": "ready"}),
            )
        )
        key = _upload(api, objects, video_id, b"another film")
        assert _deliver(arrivals, _created(key)) == []
        item = _video(table, video_id)
        assert item["source"]["uploadId"] == key.partition("/")[2]
        assert (item["status"], item["title"]) == ("processing", "A film")
        assert not {"pictures", "posterTime", "failure"} & item.keys()

    def test_upload_for_a_failed_video_starts_processing_and_clears_the_failure(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        video_id = api.create()["videoId"]
        wrong = _begin(api, video_id)
        objects.put(SOURCES_BUCKET, wrong, b"short", "video/mp4")
        _deliver(arrivals, _created(wrong))
        assert _video(table, video_id)["status"] == "failed"
        _deliver(arrivals, _created(_upload(api, objects, video_id)))
        item = _video(table, video_id)
        assert (item["status"], "failure" in item) == ("processing", False)


class TestRefused:
    @pytest.mark.parametrize(
        ("data", "kind", "reason"),
        [
            (b"", "video/mp4", "The uploaded file is empty."),
            (b"0123456789", "video/mp4", f"The file has 10 bytes, not the announced {len(SOURCE)}."),
            (SOURCE, "text/html", "The file's type is text/html, not the announced video/mp4."),
        ],
    )
    def test_file_that_differs_from_its_announcement_is_refused(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table, data: bytes, kind: str, reason: str
    ) -> None:
        video_id = api.create()["videoId"]
        key = _begin(api, video_id)
        objects.put(SOURCES_BUCKET, key, data, kind)
        for _ in range(3):
            assert _deliver(arrivals, _created(key)) == []
        item = _video(table, video_id)
        assert item["status"] == "failed"
        assert "source" not in item
        assert item["failure"] == {"job": "upload", "reason": reason, "at": int(api.clock.now)}
        assert item["version"] == 2
        assert _upload_state(table, key) == "refused"

    def test_reason_of_a_refusal_is_printable_and_short(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = api.create()["videoId"]
        key = _upload(api, objects, video_id)
        head_object = objects.client.head_object
        monkeypatch.setattr(
            objects.client, "head_object", lambda **query: head_object(**query) | {"ContentType": "\x1b[2J" * 100}
        )
        _deliver(arrivals, _created(key))
        reason = _video(table, video_id)["failure"]["reason"]
        assert reason.isprintable()
        assert len(reason) < 200

    def test_ready_video_keeps_its_source_and_stays_ready(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        video_id = api.publish("alice")["videoId"]
        key = _begin(api, video_id)
        objects.put(SOURCES_BUCKET, key, b"short", "video/mp4")
        _deliver(arrivals, _created(key))
        item = _video(table, video_id)
        assert (item["status"], item["failure"]["job"]) == ("ready", "upload")

    def test_repeated_arrival_does_not_disturb_a_source_in_processing(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        video_id = api.create()["videoId"]
        _deliver(arrivals, _created(_upload(api, objects, video_id)))
        before = _video(table, video_id)
        wrong = _begin(api, video_id)
        objects.put(SOURCES_BUCKET, wrong, b"short", "video/mp4")
        _deliver(arrivals, _created(wrong))
        after = _video(table, video_id)
        assert (after["status"], after["source"]) == ("processing", before["source"])
        assert after["failure"]["job"] == "upload"

    def test_late_refusal_of_an_earlier_file_does_not_affect_a_newer_source(
        self, api: Api, arrivals: LambdaHandler, objects: Objects, table: Table
    ) -> None:
        video_id = api.create()["videoId"]
        wrong = _begin(api, video_id)
        objects.put(SOURCES_BUCKET, wrong, b"short", "video/mp4")
        _deliver(arrivals, _created(_upload(api, objects, video_id)))
        before = _video(table, video_id)
        _deliver(arrivals, _created(wrong))
        assert _video(table, video_id) == before


class TestIgnored:
    def _unchanged(self, table: Table, arrivals: LambdaHandler, *bodies: Any) -> bool:
        with record_operations(table.client) as operations:
            assert _deliver(arrivals, *bodies) == []
        return "UpdateItem" not in {operation.name for operation in operations}

    def test_test_event_of_s3_is_ignored(self, table: Table, arrivals: LambdaHandler) -> None:
        assert self._unchanged(table, arrivals, {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "sources"})

    @pytest.mark.parametrize(
        "key",
        [UNKNOWN_KEY, "x", "", "/", "a/b", "../" + UNKNOWN_KEY, UNKNOWN_KEY + "/more", UNKNOWN_KEY.upper(), "ü b+c/\n"],
    )
    def test_key_that_belongs_to_no_upload_is_ignored(
        self, table: Table, arrivals: LambdaHandler, objects: Objects, key: str
    ) -> None:
        assert self._unchanged(table, arrivals, _created(key))

    def test_other_buckets_and_other_events_are_ignored(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        key = _upload(api, objects, api.create()["videoId"])
        assert self._unchanged(
            table, arrivals, _created(key, bucket="elsewhere"), _created(key, name="ObjectRemoved:Delete")
        )

    def test_arrival_of_a_deleted_object_is_ignored(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        key = _begin(api, api.create()["videoId"])
        assert self._unchanged(table, arrivals, _created(key))

    def test_arrival_for_an_aborted_upload_is_ignored(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        key = _upload(api, objects, api.create()["videoId"])
        video_id, _, upload_id = key.partition("/")
        assert api.delete(f"/v1/videos/{video_id}/upload/{upload_id}").status == 204
        assert self._unchanged(table, arrivals, _created(key))

    def test_upload_aborted_during_the_arrival_is_ignored(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        key = _upload(api, objects, api.create()["videoId"])
        video_id, _, upload_id = key.partition("/")
        statuses = []
        line = FaultLine(objects.client, transport=botocore_stubber)
        line.arm(
            run_before_request(lambda: statuses.append(api.delete(f"/v1/videos/{video_id}/upload/{upload_id}").status)),
            at=0,
        )
        assert _deliver(arrivals, _created(key)) == []
        assert statuses == [204]
        assert "source" not in _video(table, video_id)

    @pytest.mark.parametrize("data", [SOURCE, b"short"])
    def test_arrival_for_a_deleted_video_is_ignored(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects, data: bytes
    ) -> None:
        key = _begin(api, api.create()["videoId"])
        objects.put(SOURCES_BUCKET, key, data, "video/mp4")
        video_id = key.partition("/")[0]
        table.delete(schema.VIDEO.key(videoId=video_id))
        assert _deliver(arrivals, _created(key)) == []
        assert table.get(schema.VIDEO.key(videoId=video_id)) is None

    @pytest.mark.parametrize(("data", "is_moved"), [(SOURCE, True), (b"short", False)])
    def test_arrival_for_a_deleted_video_is_stored_for_a_restore(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects, data: bytes, is_moved: bool
    ) -> None:
        key = _begin(api, api.create()["videoId"])
        objects.put(SOURCES_BUCKET, key, data, "video/mp4")
        video_id = key.partition("/")[0]
        api.delete(f"/v1/videos/{video_id}")
        assert _deliver(arrivals, _created(key)) == []
        item = _video(table, video_id)
        assert (item["status"], "source" in item, "failure" in item) == ("deleted", is_moved, False)

    def test_video_deleted_during_the_arrival_keeps_its_source(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        video_id = api.create()["videoId"]
        key = _upload(api, objects, video_id)
        line = FaultLine(table.client, transport=botocore_stubber)

        def delete() -> None:
            line.disarm()
            api.delete(f"/v1/videos/{video_id}")

        # Call 3 (counted from 0) writes the video that call 2 read.
        line.arm(run_before_request(delete), at=3)
        assert _deliver(arrivals, _created(key)) == []
        item = _video(table, video_id)
        assert (item["status"], item["source"]["uploadId"]) == ("deleted", key.partition("/")[2])


class TestOrder:
    @pytest.mark.slow
    def test_any_order_of_notifications_ends_with_the_latest_source(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        for order in itertools.permutations(range(3)):
            video_id = api.create()["videoId"]
            keys = [_upload(api, objects, video_id, b"film %d" % number) for number in range(3)]
            for number in order:
                assert _deliver(arrivals, _created(keys[number]), _created(keys[number])) == []
            repeated = [_created(key) for key in keys * 2]
            random.shuffle(repeated)
            before = _video(table, video_id)
            assert _deliver(arrivals, *repeated) == []
            assert _video(table, video_id) == before
            assert before["source"]["uploadId"] == keys[-1].partition("/")[2]

    def test_replaced_object_is_a_new_source(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        video_id = api.create()["videoId"]
        key = _upload(api, objects, video_id, b"0123")
        _deliver(arrivals, _created(key))
        first = _video(table, video_id)["source"]
        objects.put(SOURCES_BUCKET, key, b"4567", "video/mp4")
        _deliver(arrivals, _created(key), _created(key))
        second = _video(table, video_id)
        assert second["source"]["etag"] != first["etag"]
        assert second["version"] == 3

    def test_reused_id_accepts_only_its_own_uploads(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        video_id = api.create()["videoId"]
        _deliver(arrivals, _created(_upload(api, objects, video_id)))
        remove_video(table, video_id)
        api.create("admin", videoId=video_id, userId="alice")
        key = _upload(api, objects, video_id, b"second life")
        _deliver(arrivals, _created(key))
        assert _video(table, video_id)["source"]["uploadId"] == key.partition("/")[2]


class TestInvalidMessages:
    @pytest.mark.parametrize(
        "body",
        [
            "",
            "no json",
            "[]",
            {},
            {"Records": None},
            {"Records": [None]},
            {"Records": [{}]},
            {"Records": [{"eventName": "ObjectCreated:Put"}]},
            {"Records": [{"eventName": None, "s3": {"bucket": {"name": "b"}, "object": {"key": "k"}}}]},
            {"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": 7}}}]},
            {"schema": "video-metadata/purge/1", "videoId": "v"},
        ],
        ids=repr,
    )
    def test_invalid_message_does_not_block_others(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects, body: Any
    ) -> None:
        keys = [_upload(api, objects, api.create()["videoId"]) for _ in range(2)]
        assert _deliver(arrivals, _created(keys[0]), body, _created(keys[1])) == ["m1"]
        for key in keys:
            assert "source" in _video(table, key.partition("/")[0])

    def test_failing_object_does_not_block_other_objects_of_its_message(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = [_upload(api, objects, api.create()["videoId"]) for _ in range(3)]
        head_object = objects.client.head_object

        def head(**query: Any) -> Any:
            if query["Key"] == keys[1]:
                raise ZeroDivisionError
            return head_object(**query)

        with monkeypatch.context() as patch:
            patch.setattr(objects.client, "head_object", head)
            assert _deliver(arrivals, _created(*keys)) == ["m0"]
        assert ["source" in _video(table, key.partition("/")[0]) for key in keys] == [True, False, True]
        assert _deliver(arrivals, _created(*keys)) == []
        assert "source" in _video(table, keys[1].partition("/")[0])


class TestFaults:
    """Faults at each call to DynamoDB and S3: one failure, a permanent failure, or a crash directly before or after the
    call."""

    def _arrange(self, api: Api, objects: Objects, data: bytes) -> tuple[str, str]:
        video_id = api.create()["videoId"]
        key = _begin(api, video_id, max(1, len(data)))
        objects.put(SOURCES_BUCKET, key, data, "video/mp4")
        return video_id, key

    def _is_done(self, table: Table, video_id: str, key: str, data: bytes) -> bool:
        item = _video(table, video_id)
        expected = ("processing", "received") if data else ("failed", "refused")
        return (item["status"], _upload_state(table, key)) == expected and item["version"] == 2

    @pytest.mark.slow
    @pytest.mark.parametrize("data", CALLS)
    def test_transient_fault_is_retried(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects, data: bytes
    ) -> None:
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        for incident in (lose_request, lose_response):
            for at in range(CALLS[data]):
                video_id, key = self._arrange(api, objects, data)
                line.arm(incident, at=at)
                assert _deliver(arrivals, _created(key)) == []
                line.disarm()
                assert len(line.calls) > CALLS[data]
                assert self._is_done(table, video_id, key, data), (incident, at)

    @pytest.mark.parametrize("data", CALLS)
    def test_redelivery_completes_an_arrival_after_a_crash_at_any_call(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects, data: bytes
    ) -> None:
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        for incident in (kill_before, kill_after):
            for at in range(CALLS[data]):
                video_id, key = self._arrange(api, objects, data)
                line.arm(incident, at=at)
                with pytest.raises(Killed):
                    _deliver(arrivals, _created(key))
                line.disarm()
                assert _deliver(arrivals, _created(key)) == []
                assert self._is_done(table, video_id, key, data), (incident, at)

    def test_lasting_fault_leaves_the_message_for_redelivery(
        self, api: Api, table: Table, arrivals: LambdaHandler, objects: Objects
    ) -> None:
        for client, incident in ((table.client, throttle), (objects.client, s3_refusal("SlowDown", 503))):
            video_id, key = self._arrange(api, objects, SOURCE)
            line = FaultLine(client, transport=botocore_stubber)
            line.arm(incident)
            assert _deliver(arrivals, _created(key), _created("x")) == ["m0"]
            line.disarm()
            assert _deliver(arrivals, _created(key)) == []
            assert self._is_done(table, video_id, key, SOURCE)
