"""Tests that the id of a request is propagated through the stream, the queues and the workers."""

import json
from typing import Any

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.arrivals import handler as arrivals_handler
from functions.probe import handler as probe_handler
from functions.purge import handler as purge_handler
from functions.thumbnails import handler as thumbnails_handler
from local.stream_records import stream_record
from local.testbed import streams
from local.testbed.background import BackgroundWork, make_audit
from local.testbed.harness import (
    NOW,
    SOURCES_BUCKET,
    Api,
    Clock,
    Context,
    FakeResources,
    make_api,
    remove_video,
)
from local.testbed.video_files import film
from shared.aws.dynamodb import Table
from shared.aws.messages import BatchedProcessor, Message, MessageProcessor
from shared.aws.runtime import process
from shared.aws.s3 import Objects
from shared.aws.stream import Record, StreamProcessor
from shared.background.aggregates import Aggregates
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller, request_id_of, with_request_id
from shared.core.errors import Unavailable
from shared.core.settings import LambdaHandler
from shared.core.telemetry import service_logger
from shared.job_kinds import kind_of
from shared.relations.ratings import RatingStore
from shared.schema import INDEXES, MARKER, PLAYLIST, PROFILE, RATING_TOTALS, UPLOAD, VIDEO
from shared.video_fields import PROJECTION
from shared.videos.store import VideoStore
from shared.videos.video import new_item
from tests.logs import Line, log_lines
from tests.rating_totals import settle_ratings

SOURCE_IP = "127.0.0.1"
"""Source IP address of the test requests."""


class Service:
    """Service with all functions, one table and one object store. Records the ids of the requests that the API
    received."""

    def __init__(self, table: Table, clock: Clock, objects: Objects) -> None:
        self.table = table
        self.clock = clock
        self.objects = objects
        self.api = make_api(table, clock, objects)
        self.api.handlers = {name: self._recording(handle) for name, handle in self.api.handlers.items()}
        self.requests: list[str] = []
        """Ids of all requests, oldest first."""
        self.background = BackgroundWork(table, clock)
        resources = FakeResources(table, clock, objects=objects, queues=self.background.queues)
        self.audit = make_audit(resources.audit, clock, objects=objects)
        self.workers = {
            "arrivals": resources.make(arrivals_handler.lambda_handler),
            "probe": resources.make(probe_handler.lambda_handler),
            "thumbnails": resources.make(thumbnails_handler.lambda_handler),
            "aggregates": self.background.aggregates,
            "purge": resources.make(purge_handler.lambda_handler),
        }

    def _recording(self, handle: LambdaHandler) -> LambdaHandler:
        def record_and_handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
            self.requests.append(event["requestContext"]["requestId"])
            return handle(event, context)

        return record_and_handle

    def deliver(self, queue: str, *bodies: dict[str, Any]) -> None:
        """Run a worker on its queued messages, or on the given messages. Then route the resulting changes."""
        waiting = bodies or self.background.queues[queue].take()
        assert self.workers[queue](streams.sqs_event(*waiting), Context()) == {"batchItemFailures": []}
        self.settle()

    def settle(self) -> None:
        """Deliver all changes to both consumers of the stream."""
        before = len(self.background.seen_records)
        self.background.settle()
        records = self.background.seen_records[before:]
        if records:
            assert self.audit({"Records": records}, Context()) == {"batchItemFailures": []}

    def upload(self, video_id: str, data: bytes, **options: Any) -> str:
        """Begin an upload and put the source video into the bucket. Return the id of the request that began the
        upload."""
        content = {"contentType": "video/mp4", "fileSize": len(data)}
        begun = self.send("POST", f"/v1/videos/{video_id}/upload", content, **options)
        (upload,) = self.items(video_id, UPLOAD.sort_prefix)
        key = f"{video_id}/{upload['uploadId']}"
        self.objects.put(SOURCES_BUCKET, key, data, "video/mp4")
        self.deliver("arrivals", _notification(key))
        return begun

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> str:
        """Send a request that must succeed, and return its id."""
        reply = self.api.request(method, path, json_body=body, **options)
        assert reply.status < 300, reply.body
        return self.requests[-1]

    def items(self, video_id: str, prefix: str = "") -> list[Item]:
        """Return the items in a video's partition whose sort key has this prefix."""
        return [
            item for item in _all(self.table) if item["pk"] == f"VIDEO#{video_id}" and item["sk"].startswith(prefix)
        ]


def _all(table: Table) -> list[Item]:
    pages: Any = table.client.get_paginator("scan").paginate(TableName=table.name)
    return [decode_item(item) for page in pages for item in page["Items"]]


def _notification(key: str) -> dict[str, Any]:
    object_record = {"bucket": {"name": SOURCES_BUCKET}, "object": {"key": key}}
    return {"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": object_record}]}


@pytest.fixture
def service(table: Table, clock: Clock, objects: Objects) -> Service:
    """Return the service with an empty table and empty buckets."""
    return Service(table, clock, objects)


def _messages(lines: list[Line], correlation_id: str) -> list[str]:
    return [line["message"] for line in lines if line.get("correlation_id") == correlation_id]


class TestUploadCorrelation:
    def test_upload_correlation_id_is_on_every_item_and_log_line(self, service: Service) -> None:
        video_id = service.api.create()["videoId"]
        service.settle()
        with log_lines() as lines:
            begun = service.upload(video_id, film(1, (426, 240)))
            service.deliver("probe")
            service.deliver("thumbnails")

        # Items: the upload, the video and all resulting jobs.
        written = {item["sk"]: request_id_of(item) for item in service.items(video_id)}
        jobs = ("JOB#probe", "JOB#poster", "JOB#storyboard", "JOB#transcode.240p")
        assert {name: id_ for name, id_ in written.items() if name in ("#META", *jobs)} == dict.fromkeys(
            ("#META", *jobs), begun
        )
        # Messages, including those to the transcoder, which is not part of the service.
        assert {body["correlationId"] for body in service.background.queues["transcode"].take()} == {begun}
        # The audit trail, as clients see it.
        trail = service.api.get(f"/v1/videos/{video_id}/audit", query="order=asc&limit=100").json["items"]
        first, *others = trail
        assert first["action"] == "created"
        assert first["correlationId"] != begun
        assert {(entry["action"], entry.get("kind")) for entry in others} >= {
            ("changed", None),
            ("queued", "probe"),
            ("done", "probe"),
            ("done", "poster"),
            ("queued", "transcode.240p"),
        }
        assert {entry["correlationId"] for entry in others} == {begun}
        # Log lines of every function. No line lacks an id.
        assert {
            "object created",  # arrivals
            *("job created", "message sent"),  # router
            "job done",  # probe, thumbnails
            "entry stored",  # audit
        } <= set(_messages(lines, begun))
        assert [line["kind"] for line in lines if line["message"] == "job done"] == ["probe", "poster", "storyboard"]
        assert {line.get("correlation_id") for line in lines} == {begun}
        assert all(line["function_request_id"] for line in lines)

    def test_job_resent_by_the_sweeper_keeps_its_correlation_id(self, service: Service) -> None:
        video_id = service.api.create()["videoId"]
        begun = service.upload(video_id, film(1))
        service.background.queues["probe"].take()  # the message is lost
        service.clock.advance(kind_of("probe").patience + 1)
        with log_lines() as lines:
            assert service.background.sweep()["resent"] == 1
        assert _messages(lines, begun) == ["job overdue", "message sent"]
        assert [body["correlationId"] for body in service.background.queues["probe"].take()] == [begun]

    def test_transcoder_report_keeps_the_correlation_id_of_the_upload(self, service: Service) -> None:
        video_id = service.api.create()["videoId"]
        begun = service.upload(video_id, film(1, (426, 240)))
        service.deliver("probe")
        (message,) = service.background.queues["transcode"].take()
        attempt_fields = {"inputHash": message["inputHash"], "attempt": message["attempt"]}
        for report in ({"state": "running"}, {"state": "done", "uri": message["output"]}):
            service.send(
                "PUT", message["report"], attempt_fields | report, user="transcoder", scopes="videos/transcode"
            )
        service.settle()
        (job,) = service.items(video_id, "JOB#transcode.240p")
        (video,) = service.items(video_id, "#META")
        assert (job["state"], job["updatedBy"], request_id_of(job)) == ("done", "transcoder", begun)
        assert (video["status"], request_id_of(video)) == ("ready", begun)

    def test_retry_of_a_job_has_its_own_correlation_id(self, service: Service) -> None:
        video_id = service.api.create()["videoId"]
        service.upload(video_id, film(1))
        attempt = service.background.message("probe", "probe").job_attempt
        service.background.queues["probe"].take()
        service.background.jobs.fail(attempt, "It broke.", Caller.job("probe"), NOW, retry=False)
        retried = service.send("POST", f"/v1/videos/{video_id}/jobs/probe/retry")
        service.settle()
        assert [body["correlationId"] for body in service.background.queues["probe"].take()] == [retried]
        assert service.background.job(video_id, "probe")["updatedFor"] == retried

    def test_deleted_video_withdraws_its_jobs_under_the_id_of_the_deletion(self, service: Service) -> None:
        video_id = service.api.create()["videoId"]
        service.upload(video_id, film(1))
        deleted = service.send("DELETE", f"/v1/videos/{video_id}")
        with log_lines() as lines:
            service.settle()
        (job,) = service.items(video_id, "JOB#probe")
        assert (job["state"], request_id_of(job)) == ("withdrawn", deleted)
        assert "job cancelled" in _messages(lines, deleted)

    def test_notification_without_an_upload_has_no_correlation_id(self, service: Service) -> None:
        key = "3f2504e0-4f89-41d3-9a0c-0305e82c3301/019775a1c00-9f86d081884c7d65"
        with log_lines() as lines:
            service.deliver("arrivals", _notification(key))
        (line,) = lines
        assert line["outcome"] == "ignored: unknown upload"
        assert "correlation_id" not in line

    def test_failed_arrival_is_logged_under_the_id_of_its_upload(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def busy(_: str) -> None:
            raise Unavailable

        video_id = service.api.create()["videoId"]
        begun = service.send("POST", f"/v1/videos/{video_id}/upload", {"contentType": "video/mp4", "fileSize": 9})
        (upload,) = service.items(video_id, "UPLOAD#")
        monkeypatch.setattr(service.objects, "head", busy)
        body = json.dumps(_notification(f"{video_id}/{upload['uploadId']}"))
        with log_lines() as lines:
            service.workers["arrivals"](streams.sqs_event(body), Context())
        assert _messages(lines, begun) == ["object not processed"]


class TestOtherWrites:
    def test_every_item_with_an_author_names_its_request(self, service: Service) -> None:
        new = {"title": "t", "tags": ["Short"], "userId": "alice", "status": "ready"}
        created = service.send("POST", "/v1/videos", new, user="admin", headers={"Idempotency-Key": "k"})
        (video,) = [item for item in _all(service.table) if item["sk"] == VIDEO.sk]
        path = f"/v1/videos/{video['videoId']}"
        published = service.send("PATCH", path, {"visibility": "public"})
        service.settle()
        service.deliver("aggregates")
        listed = service.send("POST", "/v1/playlists", {"title": "t"}, user="bob")
        (playlist,) = [item for item in _all(service.table) if item["pk"].startswith(PLAYLIST.partition_prefix)]
        added = service.send(
            "POST", f"/v1/playlists/{playlist['playlistId']}/entries", {"videoId": video["videoId"]}, user="bob"
        )
        rated = service.send("PUT", f"{path}/rating", {"value": 7}, user="carol")
        credited = service.send(
            "PUT", f"{path}/credits/p", {"name": "P", "ordering": 1, "roles": [{"category": "actor"}]}
        )
        released = service.send("PUT", f"{path}/releases/NZ/en", {"titles": [{"title": "t"}]})
        settle_ratings(service.table)

        items = _all(service.table)
        unnamed = [item["sk"] for item in items if ("updatedBy" in item) != ("updatedFor" in item)]
        assert unnamed == [RATING_TOTALS.sk]  # the rating totals may contain changes of many requests
        by_key = {(item["pk"].partition("#")[0], item["sk"].partition("#")[0] or item["sk"]): item for item in items}
        request_ids = {
            object_record: request_id_of(item) for object_record, item in by_key.items() if "updatedBy" in item
        }
        assert request_ids[("IDEMPOTENCY", "#KEY")] == created
        assert (
            request_ids[("VIDEO", "#META")]
            == request_ids[("VIDEO", "TAG")]
            == request_ids[("VIDEO", "AGG")]
            == request_ids[("TAGCOUNT", "#COUNT")]
            == published
        )
        assert request_ids[("VIDEO", "CREDIT")] == credited
        assert request_ids[("VIDEO", "RELEASE")] == released
        assert request_ids[("RATINGS", "carol")] == rated
        assert request_ids[("USER", "#PROFILE")] == listed
        assert (
            request_ids[("PLAYLIST", "#META")]
            == request_ids[("PLAYLIST", "ENTRY")]
            == request_ids[("PLAYLIST", "HAS")]
            == added
        )

    def test_write_without_a_request_removes_the_former_request_id(self, table: Table) -> None:
        alice, job_caller = Caller("alice", frozenset(), correlation_id="first"), Caller.job("import")
        videos, ratings, totals = VideoStore(table), RatingStore(table), Aggregates(table)
        keys = [VIDEO.key(videoId="v"), RATING_TOTALS.key(videoId="v"), PROFILE.key(userId="alice")]
        content = {"title": "t", "visibility": "private"}
        item = new_item(content, video_id="v", owner="alice", created_at=NOW, status="ready")

        videos.create(item, alice, NOW)
        ratings.set_imported("v", 7.0, 10, alice, NOW)
        totals.settle(["v"], NOW, {"v": "first"})
        assert [request_id_of(table.get(key)) for key in keys] == ["first"] * 3

        videos.change("v", job_caller, NOW, lambda item: item | {"title": "u", "duration": 1})
        ratings.set_imported("v", 7.5, 10, job_caller, NOW)
        totals.settle(["v"], NOW)
        assert [request_id_of(table.get(key)) for key in keys] == [None] * 3

    def test_totals_of_several_requests_name_no_request(self, table: Table) -> None:
        videos = VideoStore(table)
        for video_id in ("v", "w"):
            item = new_item(
                {"title": "t", "visibility": "private"}, video_id=video_id, owner="a", created_at=1, status="ready"
            )
            videos.create(item, Caller("a", frozenset(), correlation_id=video_id), NOW)
        Aggregates(table).settle(["v", "w"], NOW, {"v": "v", "w": "w"})
        assert request_id_of(table.get(PROFILE.key(userId="a"))) is None
        assert [request_id_of(table.get(MARKER.key(videoId=video_id))) for video_id in ("v", "w")] == ["v", "w"]

    def test_identical_put_by_another_request_writes_nothing(self, api: Api, table: Table) -> None:
        path = f"/v1/videos/{api.create()['videoId']}/credits/p"
        body = {"name": "P", "ordering": 1, "roles": [{"category": "actor"}]}
        assert api.put(path, body).status == 201
        (before,) = [item for item in _all(table) if item["sk"].startswith("CREDIT#")]
        assert api.put(path, body).status == 200
        assert [item for item in _all(table) if item["sk"].startswith("CREDIT#")] == [before]

    def test_expired_playlist_is_purged_under_the_id_of_its_last_write(self, service: Service) -> None:
        service.send("POST", "/v1/playlists", {"title": "t"})
        (playlist,) = [item for item in _all(service.table) if item["pk"].startswith(PLAYLIST.partition_prefix)]
        deleted = service.send("DELETE", f"/v1/playlists/{playlist['playlistId']}")
        service.settle()
        service.table.delete(PLAYLIST.key(playlistId=playlist["playlistId"]))  # as DynamoDB's TTL does
        with log_lines() as lines:
            service.settle()
            service.deliver("purge")
        assert [message for message in _messages(lines, deleted) if message != "entry stored"] == [
            "message sent",
            "leftovers purged",
        ]


class TestHiddenInLogs:
    def test_no_index_contains_the_request_id(self) -> None:
        keys = {attribute.name for index in INDEXES for attribute in (*index.partition, *index.sort)}
        assert "updatedFor" not in {*PROJECTION, *keys}

    def test_only_the_audit_trail_shows_the_request_id(self, service: Service) -> None:
        video_id = service.api.publish()["videoId"]
        service.upload(video_id, film(1))
        path = f"/v1/videos/{video_id}"
        assert service.api.put(f"{path}/rating", {"value": 7}).status == 200
        replies = [
            service.api.get(path, query="include=credits,releases,ratings,tags,jobs"),
            *(service.api.get(f"{path}/{part}") for part in ("jobs", "rating", "why-not-ready")),
            service.api.get("/v1/videos", query="userId=alice"),
            service.api.get("/v1/users/alice"),
        ]
        assert {reply.status for reply in replies} == {200}
        for reply in replies:
            text = reply.body.decode()
            assert "updatedFor" not in text
            assert not [request for request in service.requests if request in text]

    @pytest.mark.slow
    def test_log_lines_contain_no_personal_data_or_content(
        self, service: Service, capsys: pytest.CaptureFixture[str]
    ) -> None:
        hidden: dict[str, Any] = {"user": "hidden-subject", "headers": {"Authorization": "Bearer hidden-token"}}
        content = {
            "title": "Hidden Title",
            "description": "Hidden Description",
            "tags": ["hiddentag"],
            "metadata": {"note": "hidden@example.com"},
        }
        credit = {"name": "Hidden Name", "ordering": 1, "roles": [{"category": "actor", "characters": ["Hidden"]}]}

        def create() -> str:
            reply = service.api.post("/v1/videos", {**content, "visibility": "public"}, **hidden)
            return str(reply.json["videoId"])

        with log_lines() as lines:
            video_id, broken = create(), create()
            path = f"/v1/videos/{video_id}"
            service.upload(video_id, film(1, (426, 240)), **hidden)
            service.upload(broken, b"Hidden bytes, and no film", **hidden)
            for queue in ("probe", "thumbnails"):
                service.deliver(queue)
            (message,) = service.background.queues["transcode"].take()
            attempt_fields = {"inputHash": message["inputHash"], "attempt": message["attempt"]}
            service.clock.advance(kind_of(message["kind"]).patience + 1)
            assert service.background.sweep()["resent"] == 1
            for report in ({"state": "running"}, {"state": "done", "uri": message["output"]}):
                service.send(
                    "PUT", message["report"], attempt_fields | report, **hidden | {"scopes": "videos/transcode"}
                )
            for method, suffix, body in (
                ("GET", "", None),
                ("PATCH", "", {"title": "Hidden Title 2"}),
                ("PUT", "/rating", {"value": 7}),
                ("PUT", "/credits/p", credit),
                ("PUT", "/releases/NZ", {"titles": [{"title": "Hidden Name"}]}),
                ("GET", "/audit", None),
            ):
                service.send(method, path + suffix, body, **hidden)
            other = service.api.publish("somebody")["videoId"]
            service.send("POST", f"/v1/videos/{other}/views", {"viewerId": "hidden-viewer"}, **hidden)
            service.send("POST", "/v1/playlists", {"title": "Hidden Title"}, **hidden)
            service.send("GET", "/v1/users/hidden-subject", **hidden)
            assert service.api.patch(path, {"hidden": "Hidden"}, **hidden).status == 422
            service.send("DELETE", path, **hidden)
            service.settle()
            remove_video(service.table, video_id)
            service.settle()
            for queue in ("aggregates", "purge"):
                service.deliver(queue)

        # Every function has logged.
        assert {line["message"] for line in lines} >= {
            "object created",  # arrivals
            *("job created", "job cancelled", "message sent"),  # router
            "entry stored",  # audit
            *("job done", "source file not usable"),  # probe, thumbnails
            "job overdue",  # sweeper
            "totals updated",  # aggregates
            "leftovers purged",  # purge
        }
        metric_lines = capsys.readouterr().out
        assert "ViewsCounted" in metric_lines
        texts = [*map(json.dumps, lines), *metric_lines.splitlines()]
        assert [text for text in texts if "hidden" in text.lower() or SOURCE_IP in text] == []


class TestBatches:
    def test_messages_of_one_batch_are_logged_under_their_own_ids(self) -> None:
        def handle(message: Message) -> None:
            service_logger().info("seen")
            if message.json_body.get("fail"):
                raise Unavailable

        bodies: list[dict[str, Any]] = [
            {"correlationId": "one"},
            {},
            {"correlationId": "two", "fail": True},
            {"correlationId": 7},
        ]
        with log_lines() as lines:
            process(streams.sqs_event(*bodies), handle, MessageProcessor())
            service_logger().info("after")
        assert [(line["message"], line.get("correlation_id")) for line in lines] == [
            ("seen", "one"),
            ("seen", None),
            ("seen", "two"),
            ("message failed", "two"),
            ("seen", None),
            ("after", None),
        ]

    def test_messages_that_fail_as_one_batch_are_logged_under_their_own_ids(self) -> None:
        def handle(_: object) -> None:
            raise Unavailable

        records = [{"messageId": id_, "body": json.dumps({"correlationId": id_})} for id_ in ("one", "two")]
        with log_lines() as lines:
            process({"Records": records}, handle, BatchedProcessor())
        assert [(line["message_id"], line["correlation_id"]) for line in lines] == [("one", "one"), ("two", "two")]

    def test_records_are_logged_under_the_id_of_the_new_item_or_else_of_the_old_one(self) -> None:
        def handle(record: Record) -> None:
            service_logger().info("seen")
            if record.name == "REMOVE":
                raise OSError

        item = {"pk": "VIDEO#v", "sk": "#META"}
        old, new = item | {"updatedFor": "old"}, item | {"updatedFor": "new"}
        batch = [
            stream_record(old, new, sequence=1),
            stream_record(old, item, sequence=2),
            stream_record(None, new, sequence=3),
            stream_record(old, None, sequence=4),
        ]
        with log_lines() as lines:
            process(streams.event(*batch), handle, StreamProcessor())
            service_logger().info("after")
        assert [line.get("correlation_id") for line in lines] == ["new", None, "new", "old", "old", None]
        assert [line["message"] for line in lines[-2:]] == ["record failed", "after"]


class TestCaller:
    def test_signed_write_names_the_author_and_the_request(self) -> None:
        caller = Caller("alice", frozenset(), correlation_id="r")
        assert caller.signed({"a": 1}) == {"a": 1, "updatedBy": "alice", "updatedFor": "r"}
        assert caller.acting_for(None).signed({"updatedFor": "before"}) == {"updatedBy": "alice"}

    def test_item_without_a_request_id_names_no_request(self) -> None:
        assert (request_id_of(None), request_id_of({}), request_id_of(with_request_id({}, "r"))) == (None, None, "r")
