"""Each role allows exactly the requests that its function sends.

The service runs as in the other tests, over moto, which denies nothing. Every request is compared with the role that
`cdk deploy` would create for the sending function (tests/policies.py).
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from moto import mock_aws

from functions.aggregates import handler as aggregates
from functions.arrivals import handler as arrivals
from functions.audit import handler as audit
from functions.compactor import handler as compactor
from functions.deliveries import handler as deliveries
from functions.indexer import handler as indexer
from functions.probe import handler as probe
from functions.purge import handler as purge
from functions.rankings import handler as rankings
from functions.stream_router import handler as stream_router
from functions.sweeper import handler as sweeper
from functions.thumbnails import handler as thumbnails
from functions.webhooks import handler as webhooks
from local.testbed.athena import FakeAthena
from local.testbed.background import RENDITIONS, BackgroundWork, FakeQueue
from local.testbed.calls import BODIES, CALLS, MISSING, path_of
from local.testbed.counted_views import CountedViews
from local.testbed.harness import (
    DELIVERY_QUOTAS,
    MEDIA_BUCKET,
    SOURCES_BUCKET,
    Api,
    Clock,
    Context,
    FakeResources,
    create_audit_table,
    create_table,
    make_api,
)
from local.testbed.streams import sqs_event
from local.testbed.video_files import SubtitleSpec, film, make_subtitled
from local.testbed.wire import intercept, throttle_once
from shared import schema
from shared.archive_tables import ARCHIVE_TABLES, VIDEOS, VIEWS
from shared.aws.dynamodb import Table, make_client
from shared.aws.expressions import Expression
from shared.aws.quotas import CHECK_SECONDS
from shared.aws.records import ABSENT
from shared.aws.s3 import Objects, object_uri
from shared.aws.s3 import make_client as make_s3_client
from shared.core.attributes import Item
from shared.core.caller import request_id_of
from shared.core.periods import DAY_SECONDS, day_of
from shared.core.settings import LambdaHandler
from shared.feed.log import Feed
from shared.history.changeset_reverts import MAX_ENTRIES_INLINE
from shared.job_kinds import JOB_QUEUES
from shared.processing.job_states import LAST_ATTEMPT
from shared.processing.messages import aggregates_message, deliver_message, purge_message
from shared.questions.saved import QUESTIONS
from shared.routes import ROUTES
from shared.search.generations import KEPT_SECONDS, LEASE_SECONDS, Generations, LocalCopy
from shared.search.loader import DocumentLoader
from shared.search.tantivy_engine import TantivyEngine
from shared.web.http import http_function
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.quotas import QUICK
from tests.policies import ANALYTICS_BUCKET, ARCHIVE_BUCKET, Access, IamRole, PolicyWatch, accesses
from tests.reverting import RevertTestbed
from tests.unit.infra import page_tables
from tests.unit.infra.page_tables import WILDCARDS
from tests.unit.infra.templates import FUNCTIONS, Templates, as_list, to_text
from tools.progress import Bars
from tools.snapshotting import write_export

CREDIT: dict[str, Any] = {"ordering": 1, "roles": [{"category": "actor"}]}


class CheckedQueue(FakeQueue):
    """Queue that checks the sender's permission for each message."""

    def __init__(self, watch: PolicyWatch, name: str) -> None:
        super().__init__()
        self._watch, self._name = watch, name

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Check that the running function may send to the queue, and store the message."""
        self._watch.check(Access("sqs:SendMessage", f"{self._name.capitalize()}Queue"))
        super().send(body, delay_seconds)


class ExpiredContext(Context):
    """Context of an invocation without remaining time."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        """Return 0."""
        return 0


class LongContext(Context):
    """Context of an invocation with five minutes left."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        """Return five minutes."""
        return 300_000


@dataclass
class Receiver:
    """Receiver of webhooks."""

    status: int = 200
    """Status of its responses."""
    accepted: int = 0

    def send(self, *_: object, **__: object) -> ReceiverResponse:
        """Respond to an event."""
        self.accepted += self.status == 200
        return ReceiverResponse(self.status, 1, b"", None, is_forbidden=False, retry_after=None)


class Service:
    """The whole service over an empty account, with checks of each function's permissions."""

    def __init__(self, watch: PolicyWatch) -> None:
        self.watch = watch
        client = make_client()
        create_table(client, schema.TABLE_NAME)
        create_audit_table(client, schema.AUDIT_TABLE_NAME)
        self.table = Table(schema.TABLE_NAME, client, sleep=lambda _: None)
        self.objects = Objects(make_s3_client(), sleep=lambda _: None)
        for bucket in (SOURCES_BUCKET, MEDIA_BUCKET, ARCHIVE_BUCKET, ANALYTICS_BUCKET):
            self.objects.client.create_bucket(Bucket=bucket)
        athena = FakeAthena()
        watch.observe(client, self.objects.client, athena)
        clock = Clock()
        plain_api = make_api(self.table, clock, self.objects, athena=athena)
        handlers = {name: watch.wrap(name, handler) for name, handler in plain_api.handlers.items()}
        self.api = Api(self.table, handlers, clock)
        self.background = BackgroundWork(self.table, clock)
        queues = {
            name: CheckedQueue(watch, name)
            for name in (
                *("probe", "thumbnails", "transcode", "purge", "aggregates", "tallies", "reverts", "deliveries"),
            )
        }
        self.background.queues.update(queues)
        audit_table = Table(schema.AUDIT_TABLE_NAME, client, sleep=lambda _: None)
        self.resources = FakeResources(self.table, clock, audit=audit_table, objects=self.objects, queues=queues)
        resources = self.resources
        self.background.router = watch.wrap("stream_router", resources.make(stream_router.lambda_handler))
        self.background.sweeper = watch.wrap("sweeper", resources.make(sweeper.lambda_handler))
        self.background.aggregates = watch.wrap("aggregates", resources.make(aggregates.lambda_handler))
        self.rankings = watch.wrap("rankings", resources.make(rankings.lambda_handler))
        self.background.tallies = watch.wrap("tallies", self.background.tallies)
        feed = Feed(audit_table, clock)
        self.index = Generations(self.table, self.objects, MEDIA_BUCKET, clock)
        self.loader = DocumentLoader(self.table, self.objects, MEDIA_BUCKET)
        self.feed = feed
        self._audit = watch.wrap("audit", resources.make(audit.lambda_handler))
        self.receiver = Receiver()
        handlers["webhooks"] = watch.wrap(
            "webhooks",
            resources.make(
                webhooks.lambda_handler, http_function(partial(webhooks.WebhookHandlers, send=self.receiver.send))
            ),
        )
        self._workers: dict[str, LambdaHandler] = {
            "arrivals": watch.wrap("arrivals", resources.make(arrivals.lambda_handler)),
            "probe": watch.wrap("probe", resources.make(probe.lambda_handler, RENDITIONS=",".join(RENDITIONS))),
            "thumbnails": watch.wrap("thumbnails", resources.make(thumbnails.lambda_handler)),
            "purge": watch.wrap("purge", resources.make(purge.lambda_handler)),
            "deliveries": watch.wrap(
                "deliveries",
                resources.make(deliveries.lambda_handler, partial(deliveries.make, send=self.receiver.send)),
            ),
        }

    def deliver(self, worker: str, *bodies: dict[str, Any], context: Context | None = None) -> None:
        """Deliver the waiting or given messages to a worker, then run the router."""
        waiting = bodies or self.background.queues[worker].take()
        event = sqs_event(*waiting, SentTimestamp=str(int(self.api.clock() * 1000)))
        assert self._workers[worker](event, context or Context()) == {"batchItemFailures": []}
        self.background.settle()

    def keep_history(self) -> None:
        """Deliver all records that the router has processed to the audit function."""
        assert self._audit({"Records": self.background.seen_records}, Context()) == {"batchItemFailures": []}

    def deliver_changes(self) -> None:
        """Append the changes in the router's records to the feed, and deliver to webhooks until no message waits."""
        self.keep_history()
        while self.background.queues["deliveries"].sent:
            # without an advance, the function would query the index again for items that were just created
            self.api.clock.advance(3)
            self.deliver("deliveries")

    def upload(self, video_id: str, data: bytes, size: int | None = None) -> None:
        """Upload a source file as a client does, and deliver its arrival."""
        announced = {"contentType": "video/mp4", "fileSize": len(data) if size is None else size}
        begun = self.api.post(f"/v1/videos/{video_id}/upload", announced).json
        key = f"{video_id}/{begun['uploadId']}"
        self.objects.client.put_object(Bucket=SOURCES_BUCKET, Key=key, Body=data, ContentType="video/mp4")
        record = {"bucket": {"name": SOURCES_BUCKET}, "object": {"key": key}}
        self.deliver("arrivals", {"Records": [{"eventName": "ObjectCreated:Put", "s3": record}]})

    def work(self) -> None:
        """Run all waiting work of probe and thumbnails."""
        for worker in ("probe", "thumbnails"):
            self.deliver(worker)

    def make_older(self, video_id: str, *tags: str) -> None:
        """Convert a video to the previous schema version."""
        change = Expression("SET schemaVersion = :two, tags = :tags", {}, {":two": 2, ":tags": set(tags)})
        self.table.write(self.table.update(schema.VIDEO.key(videoId=video_id), change))


def every_route(service: Service) -> None:
    """Call each route with valid and invalid requests, as the owner and as another user, for existing and deleted
    videos."""
    api = service.api
    created: tuple[str, str, str] | None = None
    for route in ROUTES:
        existing, deleted, playlist = created or _create_items(api)
        for video_id in (existing, deleted):
            path = path_of(route, videoId=video_id, playlistId=playlist)
            body = BODIES.get(route.operation)
            key = {"Idempotency-Key": f"{route.operation}-{video_id}"}
            for user, headers in (("bob", {}), ("alice", key), ("alice", key), ("alice", {})):
                api.request(route.method, path, json_body=body, user=user, headers=headers)
        created = (existing, deleted, playlist) if route.method == "GET" else None


def _create_items(api: Api) -> tuple[str, str, str]:
    """Create a video, a deleted video, and a playlist with the first video. Return their ids."""
    existing, deleted = api.publish()["videoId"], api.create()["videoId"]
    api.delete(f"/v1/videos/{deleted}")
    api.put(f"/v1/videos/{existing}/credits/sam", CREDIT)
    playlist = api.post("/v1/playlists", {"title": "t", "visibility": "public"}).json["playlistId"]
    api.post(f"/v1/playlists/{playlist}/entries", {"videoId": existing})
    return existing, deleted, playlist


def captions_and_chapters(service: Service) -> None:
    """Send, read, replace and remove captions and chapters. The text of one caption is lost."""
    video = f"/v1/videos/{service.api.publish()['videoId']}"
    headers = {"Content-Type": "text/vtt"}
    for language in ("en", "de"):
        for _ in range(2):
            text = "WEBVTT\n\n00:01.000 --> 00:03.000\nThe tide is out.\n"
            service.api.request("PUT", f"{video}/captions/{language}", body=text, headers=headers)
    for path in ("captions", "captions/en", "captions/de"):
        assert service.api.get(f"{video}/{path}").status == 200
    service.api.delete(f"{video}/captions/de")
    service.api.put(f"{video}/chapters", {"chapters": [{"start": 0, "title": "All of it"}]})
    service.api.get(f"{video}/chapters")
    service.api.delete(f"{video}/chapters")


def more_videos_than_a_quota(service: Service) -> None:
    """Upload more videos of one owner than may be processed concurrently. One waits, and one is deleted while it
    waits."""
    data = b"no film"
    videos = [str(service.api.create()["videoId"]) for _ in range(JOB_QUEUES["probe"] + 2)]
    for video_id in videos:
        service.upload(video_id, data)
    service.api.delete(f"/v1/videos/{videos[-1]}")
    service.background.settle()
    service.deliver("probe")
    service.deliver("probe")


def from_upload_to_pictures(service: Service) -> None:
    """Process a source file without failures, choose its poster again, and report on renditions as a transcoder."""
    video_id = service.api.create(tags=["t"])["videoId"]
    service.upload(video_id, film(2, (640, 360), audio=True))
    service.work()
    for name in RENDITIONS:
        message = service.background.message("transcode", f"transcode.{name}")
        report: dict[str, Any] = {"inputHash": message.inputHash, "attempt": message.attempt}
        uri = f"s3://{MEDIA_BUCKET}/renditions/{video_id}/{message.inputHash}/{name}.mp4"
        for state in ({"state": "running"}, {"state": "running", "progress": 50}, {"state": "done", "uri": uri}):
            path = f"/v1/videos/{video_id}/renditions/{name}"
            response = service.api.put(path, report | state, user="transcoder", scopes="videos/transcode")
            assert response.status == 200, response.body
    assert service.api.get(f"/v1/videos/{video_id}").json["status"] == "ready"
    text, headers = "WEBVTT\n\n00:01.000 --> 00:03.000\nThe tide is out.\n", {"Content-Type": "text/vtt"}
    service.api.request("PUT", f"/v1/videos/{video_id}/captions/en", body=text, headers=headers)
    assert len(service.api.get(f"/v1/videos/{video_id}/playback").json["renditions"]) == len(RENDITIONS)
    service.make_older(video_id, "Cats", "cats")
    service.api.post(f"/v1/videos/{video_id}/thumbnail", {"position": 1000})
    service.background.settle()
    service.work()
    service.upload(video_id, film(1))
    service.work()
    service.keep_history()
    for path, query in (("", "version=1"), ("/diff", "from=1")):
        assert service.api.get(f"/v1/videos/{video_id}{path}", query=query).status == 200


def videos_with_subtitles(service: Service) -> None:
    """Upload three source files of a video. The captions of the first are extracted, the captions of the second
    replace them, and the third has none."""
    video_id = service.api.create()["videoId"]
    tracks = SubtitleSpec("eng"), SubtitleSpec("deu")
    for data in (
        make_subtitled(*tracks),
        make_subtitled(SubtitleSpec("eng", ((0, 900, "Other words."),)), tracks[1]),
        film(1),
    ):
        service.api.clock.advance(1)  # upload ids increase once per second
        service.upload(video_id, data)
        service.work()
    assert service.api.get(f"/v1/videos/{video_id}/captions").json["items"] == []


def unreadable_file(service: Service) -> None:
    """Upload source files that cannot be processed, differ from their announced size, or belong to a deleted video."""
    video_id = service.api.create()["videoId"]
    service.upload(video_id, film(1, audio=True))
    service.work()
    service.upload(video_id, b"This is no film.")
    service.work()
    service.api.post(f"/v1/videos/{video_id}/jobs/probe/retry")
    service.background.settle()
    service.work()
    service.upload(video_id, b"short", size=6)
    service.api.delete(f"/v1/videos/{video_id}")
    service.background.settle()
    service.upload(service.api.create()["videoId"], b"short", size=6)
    late = service.api.create()["videoId"]
    begun = service.api.post(f"/v1/videos/{late}/upload", {"contentType": "video/mp4", "fileSize": 1}).json
    service.api.delete(f"/v1/videos/{late}")
    key = f"{late}/{begun['uploadId']}"
    service.objects.client.put_object(Bucket=SOURCES_BUCKET, Key=key, Body=b"x", ContentType="video/mp4")
    record = {"bucket": {"name": SOURCES_BUCKET}, "object": {"key": key}}
    service.deliver("arrivals", {"Records": [{"eventName": "ObjectCreated:Put", "s3": record}]})
    service.api.post(f"/v1/videos/{late}/restore")
    service.background.settle()
    service.work()


def stuck_jobs(service: Service) -> None:
    """Lose workers, messages and jobs, and retry a job as a user."""
    api, background = service.api, service.background
    video_id = background.uploaded_film(api)
    transcode = background.message("transcode", "transcode.360p")
    path = f"/v1/videos/{video_id}/renditions/360p"
    for attempt in range(1, LAST_ATTEMPT + 1):
        api.clock.advance(3600)
        report = {"inputHash": transcode.inputHash, "attempt": attempt, "state": "running"}
        assert api.put(path, report, user="transcoder", scopes="videos/transcode").status == 200
        api.clock.advance(3600)
        background.sweep()
    api.post(f"/v1/videos/{video_id}/jobs/transcode.360p/retry")
    background.settle()
    report = {"inputHash": transcode.inputHash, "attempt": LAST_ATTEMPT + 1, "state": "running"}
    api.put(path, report, user="transcoder", scopes="videos/transcode")
    broken = report | {"state": "failed", "reason": "It broke."}
    assert api.put(path, broken, user="transcoder", scopes="videos/transcode").status == 200
    service.table.delete(schema.JOB.key(videoId=video_id, kind="poster"))
    api.post(f"/v1/videos/{video_id}/jobs/poster/retry")
    for _ in range(4):
        api.clock.advance(24 * 3600)
        background.sweep()
    other = background.uploaded_film(api)
    service.table.delete(schema.JOB.key(videoId=other, kind="poster"))
    api.clock.now = (api.clock.now // 3600 + 1) * 3600  # the sweeper looks for missing jobs once an hour
    background.sweep()


def totals_and_years(service: Service) -> None:
    """Change counted videos, and move credits to another year with their video."""
    api, background = service.api, service.background
    video_id = api.publish(tags=["a"], releaseYear=1993)["videoId"]
    api.put(f"/v1/videos/{video_id}/credits/sam", CREDIT)
    background.settle_totals()
    api.patch(f"/v1/videos/{video_id}", {"tags": ["b"], "releaseYear": 1994})
    background.settle_totals()
    year_moved: list[str] = []

    def move_year(operation: str, _: Any, send: Callable[[], Any]) -> Any:
        if operation == "PutItem" and not year_moved:
            year_moved.append(video_id)
            with service.watch.as_test():
                change = Expression("SET releaseYear = :year", {}, {":year": 1995})
                service.table.write(service.table.update(schema.VIDEO.key(videoId=video_id), change))
        return send()

    # The year changes between the read of a credit's video and the write of the credit.
    intercept(service.table.client, move_year)
    api.put(f"/v1/videos/{video_id}/credits/kim", CREDIT)
    assert year_moved
    waiting = {"messageId": "m", "body": json.dumps(aggregates_message(video_id, entries=True))}
    background.aggregates({"Records": [waiting]}, ExpiredContext())
    service.table.delete(schema.VIDEO.key(videoId=video_id))
    background.settle_totals()


def scheduled_publication(service: Service) -> None:
    """Publish a video at its `publishAt` time."""
    service.api.publish(publishAt=int(service.api.clock()) + 3600)
    service.background.settle_totals()
    service.api.clock.advance(3600)
    service.background.sweep()
    service.background.settle_totals()


def streamed_counts(service: Service) -> None:
    """Send views of many viewers, and ratings, and deliver their stream records twice."""
    video_id = service.api.publish(category="drama")["videoId"]
    service.background.settle()
    with service.watch.as_test():
        for number in range(100):
            lane, at = schema.lane_of(f"viewer {number}"), int(service.api.clock())
            for entity, named in (
                (schema.VIEWER, {"id": f"viewer {number}"}),
                (schema.RATING, {"userId": f"u{number}"}),
            ):
                item = {**entity.key(videoId=video_id, lane=lane, **named), "videoId": video_id, "value": 7, "at": at}
                service.table.write(service.table.put(item, condition=ABSENT))
    service.background.settle()
    service.background.replay()
    service.api.patch(f"/v1/videos/{video_id}", {"category": "comedy"})  # moves the sort entry
    service.background.settle_totals()


def many_views(service: Service) -> None:
    """Send views of a video while its counter is throttled, so that it is split into shards, and read the count."""
    video_id = service.api.publish()["videoId"]
    with throttle_once(service.table.client, "UpdateItem"):
        counts = [service.api.post(f"/v1/videos/{video_id}/views", user="bob").json["viewCount"] for _ in range(3)]
    assert counts == [1, 2, 3]
    for query in ("", "include=tags"):
        assert service.api.get(f"/v1/videos/{video_id}", query=query).json["viewCount"] == 3


def removals(service: Service) -> None:
    """Delete a video and a playlist with related items of every kind."""
    api = service.api
    video_id, other = api.publish(videoId=MISSING, slug="removed")["videoId"], api.publish()["videoId"]
    for user in ("alice", "bob"):
        api.put(f"/v1/videos/{video_id}/rating", {"value": 7}, user=user)
    api.put(f"/v1/videos/{other}/rating", {"value": 7})
    service.background.settle()
    api.delete(f"/v1/videos/{other}/rating")  # the last rating, so the sort entry is removed as well
    service.background.settle()
    for user in ("alice", "bob"):
        api.post(f"/v1/videos/{video_id}/views", {"watchedMs": 5}, user=user)
    counter: Item = {"views": 1, "spread": 2}
    for shard in (0, 1):
        service.table.write(service.table.put(schema.VIEW_COUNTER.key(videoId=video_id, shard=shard) | counter))
    service.table.write(service.table.put(dict(schema.VIEW_HOUR.key(videoId=video_id, hour="2025-06-15T15"))))
    api.put(f"/v1/videos/{video_id}/credits/sam", CREDIT)
    playlists = [api.post("/v1/playlists", {"title": "t"}).json["playlistId"] for _ in range(2)]
    for playlist_id in playlists:
        for added in (video_id, other):
            api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": added})
    for bucket, key in (
        (SOURCES_BUCKET, f"{video_id}/0001"),
        (MEDIA_BUCKET, f"thumbnails/{video_id}/x/poster.jpg"),
        (MEDIA_BUCKET, f"renditions/{video_id}/x/240p.mp4"),
        (MEDIA_BUCKET, f"captions/{video_id}/x.vtt"),
    ):
        service.objects.put(bucket, key, b"x", "video/mp4")
    for playlist_id in playlists:
        api.delete(f"/v1/playlists/{playlist_id}")
    # DynamoDB deletes expired items. The other playlist expires later.
    service.table.delete(schema.PLAYLIST.key(playlistId=playlists[0]))
    service.table.delete(schema.VIDEO.key(videoId=video_id))
    service.background.settle()
    service.deliver("purge")
    service.deliver("purge", purge_message(video_id), context=ExpiredContext())
    service.keep_history()
    # The same id is used again, while related items of the first video exist and after their expiry.
    api.publish(videoId=video_id)
    api.delete(f"/v1/videos/{video_id}")
    api.clock.advance(100 * 24 * 3600)
    api.post("/v1/videos", {"title": "t", "videoId": video_id}, user="admin")


def rankings_of_views(service: Service) -> None:
    """Rank views in two categories, one of which has no new views. A counter has three shards."""
    video_id, viewed = service.api.publish(category="c")["videoId"], CountedViews(service.table)
    for category, advance in (("c", 0), ("d", 30 * 3600)):
        service.api.clock.advance(advance)
        viewed.categories[video_id] = category
        for shard in range(3):
            viewed.count(video_id, int(service.api.clock()), shard=shard)
        with service.watch.as_test():
            viewed.store()
        service.rankings({}, Context())
    assert service.api.get("/v1/top", query="category=c").status == 200


def compacted_archive(service: Service) -> None:
    """Compact an old day, then the current day, then a later entry of that day. Convert two exports of the table."""
    compact = service.watch.wrap("compactor", service.resources.make(compactor.lambda_handler))
    for days in (5, 0, 0):
        service.api.clock.advance(days * DAY_SECONDS)
        service.api.publish()
        service.background.settle()
        service.keep_history()
        compact({}, LongContext())
    video_id = service.api.publish()["videoId"]
    assert service.api.post(f"/v1/videos/{video_id}/views", user="bob").status == 200
    service.background.settle()
    for days in (0, 1):
        service.api.clock.advance(days * DAY_SECONDS)
        write_export(service.table, service.objects, ANALYTICS_BUCKET, bars=Bars(), clock=service.api.clock)
        compact({}, LongContext())
    today, yesterday = (day_of(int(service.api.clock.now) - ago * DAY_SECONDS) for ago in (0, 1))
    for key in (VIDEOS.key(day=today), VIEWS.key(day=yesterday)):
        assert service.objects.exists(object_uri(ANALYTICS_BUCKET, key))


def saved_questions(service: Service) -> None:
    """Run each saved question, and read its state."""
    for question in QUESTIONS:
        run = service.api.post(f"/v1/questions/{question}/runs", user="admin").json
        service.api.get(f"/v1/questions/top-editors/runs/{run['runId']}", user="admin")


def search_queries(service: Service) -> None:
    """Build, extend and clean up an index of videos with captions; the captions of one video are missing."""
    clock, watch = service.api.clock, service.watch
    with TemporaryDirectory() as folder:
        with mock.patch.object(indexer, "own_folder", return_value=Path(folder)):
            build = watch.wrap("indexer", service.resources.make(indexer.lambda_handler))
        captions_and_chapters(service)
        service.background.settle()
        service.keep_history()
        build({}, ExpiredContext())
        with watch.as_test():
            clock.now = time.time() + 2 * KEPT_SECONDS  # S3 has a separate clock
            service.objects.put(MEDIA_BUCKET, "index/left", b"behind", "application/octet-stream")
        build({}, LongContext())
        video_id = service.api.publish(title="Apples")["videoId"]
        service.background.settle()
        service.keep_history()
        shutil.rmtree(folder)
        Path(folder).mkdir()
        clock.advance(LEASE_SECONDS)
        build({}, LongContext())
        with watch.as_test():
            copy = LocalCopy(Path(folder))
            service.index.copy_newest(copy)
            assert next(TantivyEngine(copy.folder).stored([video_id]))
    user = {"user": "alice"}
    cursor = service.api.get("/v1/changes", query="userId=alice", **user).json["nextCursor"]
    full_query = f"q=apples&tag=none&language=en&limit=1&consistentWith={cursor}"
    for query in (full_query, "q=apples&limit=1&facets=tag"):
        assert service.api.get("/v1/search", query=query, **user).status == 200
    captions_and_chapters(service)
    service.background.settle()
    service.keep_history()
    clock.advance(1)
    assert service.api.get(f"/v1/videos/{video_id}/similar", **user).status == 200


def reverted_change_sets(service: Service) -> None:
    """Revert change sets of every kind, synchronously and by the worker, and revert a revert."""
    api, watch = service.api, service.watch
    testbed = RevertTestbed(api)
    testbed.queues["reverts"] = service.background.queues["reverts"]
    testbed.set_page_size(1)
    testbed.worker = watch.wrap("reverts", testbed.worker)
    change_set = testbed.create_change_set("created")
    listed = api.publish(tags=["a"], category="c", slug="listed", seriesId=change_set.video_ids[0], episode=1)[
        "videoId"
    ]
    playlist_id = api.post("/v1/playlists", {"title": "t"}).json["playlistId"]
    for video_id in (change_set.video_ids[0], listed):
        testbed.write("POST", f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id})
    testbed.write("PATCH", f"/v1/videos/{listed}", {"tags": ["b"], "episode": 2, "slug": None})
    testbed.write("PATCH", f"/v1/playlists/{playlist_id}/entries/{listed}", {"after": None})
    processed = testbed.uploaded_film(api)
    for position in (1, 2):
        testbed.write("POST", f"/v1/videos/{processed}/thumbnail", {"position": position})
    sets = ["created", testbed.last_changeset(listed), testbed.last_changeset_of_playlist(playlist_id)]
    sets.append(str(request_id_of(testbed.item(processed))))
    for changeset_id in sets:
        assert api.get(f"/v1/changesets/{changeset_id}", user="admin").status == 200
    # The number of reverts is even, so that all changes are restored.
    for most in (MAX_ENTRIES_INLINE, MAX_ENTRIES_INLINE, 0, 0):
        with mock.patch("shared.history.changeset_reverts.MAX_ENTRIES_INLINE", most):
            for changeset_id in sets:
                _revert_change_set(service, testbed, changeset_id, query="dryRun=true")
            sets = [_revert_change_set(service, testbed, changeset_id) for changeset_id in sets][::-1]
    with mock.patch("shared.history.changeset_reverts.MAX_ENTRIES_INLINE", 0):
        # At first, the trail lacks a change by another user. Later it contains this change.
        api.patch(f"/v1/videos/{listed}", {"tags": ["c"]}, user="admin")
        service.background.settle()
        reply = testbed.undo(sets[1])
        service.background.settle()
        testbed.deliver(*testbed.queues["reverts"].take())
        testbed.work()
        (part,) = testbed.run(sets[1], reply.json["revertId"]).json["items"]
        assert [skipped["field"] for skipped in part["skipped"]] == ["/tags"]
    api.create(folder="a/b")
    service.background.settle_totals()
    move_id = api.post("/v1/folder-moves", {"folder": "a", "to": "c"}).json["moveId"]
    service.background.settle()
    testbed.work()
    assert api.get(f"/v1/folder-moves/{move_id}").json["moved"] == 1
    service.background.settle_totals()
    for path in ("/v1/folders", "/v1/folders/c", "/v1/videos?folder=c&subfolders=true"):
        address, _, query = path.partition("?")
        assert api.get(address, query=query).status == 200


def webhooks_and_feed(service: Service) -> None:
    """Deliver, retry and replay changes, pause a webhook, and read the feed from its end and its beginning."""
    api, receiver = service.api, service.receiver
    webhook, key = {"url": "https://receiver.example/"}, {"Idempotency-Key": "k"}
    hook = api.post("/v1/webhooks", webhook, headers=key).json["webhookId"]
    assert api.post("/v1/webhooks", webhook, headers=key).json["webhookId"] == hook
    global_hook = api.post("/v1/webhooks", webhook | {"userId": "*"}, user="admin").json["webhookId"]
    video_id = api.create()["videoId"]
    service.background.settle()
    service.deliver_changes()
    assert receiver.accepted == 2
    receiver.status = 503
    api.patch(f"/v1/videos/{video_id}", {"title": "u"})
    service.background.settle()
    service.deliver_changes()
    receiver.status = 200
    api.clock.advance(60)
    service.background.sweep()
    service.deliver_changes()
    assert receiver.accepted == 4
    api.post(f"/v1/webhooks/{hook}/replay", {"from": int(api.clock()) - 600})
    service.deliver_changes()
    assert receiver.accepted == 6
    receiver.status = 410
    service.keep_history()  # the records are delivered again, so the function looks for existing entries
    api.post(f"/v1/webhooks/{global_hook}/replay", {"from": int(api.clock()) - 600}, user="admin")
    service.deliver_changes()
    assert api.get(f"/v1/webhooks/{global_hook}", user="admin").json["paused"]
    assert api.get(f"/v1/webhooks/{hook}/deliveries").json["items"]
    assert api.post(f"/v1/webhooks/{hook}/rotate", headers=key).status == 200
    assert api.post(f"/v1/webhooks/{hook}/test").status == 200
    assert len(api.get("/v1/webhooks", query="follows=alice", user="admin").json["items"]) == 1
    for query in ("after=now", "", "userId=alice&after=now", "userId=alice"):
        assert api.get("/v1/changes", query=query, user="admin").status == 200


def more_webhooks_than_a_quota(service: Service) -> None:
    """Let a webhook wait, because its owner's quota is full of slots that workers never released.

    A later delivery detects and releases these slots.
    """
    api, accepted = service.api, service.receiver.accepted
    service.receiver.status = 200
    hooks = [
        api.post("/v1/webhooks", {"url": "https://receiver.example/"}, user="zoe").json["webhookId"] for _ in range(2)
    ]
    service.deliver_changes()
    stale = {f"lost{number}" for number in range(DELIVERY_QUOTAS[QUICK])}
    quota = {**schema.SHARE.key(userId="zoe", queue=QUICK), "jobs": stale, "checkedAt": int(api.clock())}
    service.table.write(service.table.put(quota, condition=None))
    api.create(user="zoe")
    service.background.settle()
    service.keep_history()
    service.background.queues["deliveries"].take()
    service.deliver("deliveries", deliver_message(hooks[0]))
    assert service.receiver.accepted == accepted
    api.clock.advance(CHECK_SECONDS)
    service.deliver("deliveries", deliver_message(hooks[1]))
    service.deliver_changes()
    assert service.receiver.accepted == accepted + 2


def _revert_change_set(service: Service, testbed: RevertTestbed, changeset_id: str, query: str = "") -> str:
    """Revert a change set, and return the id of the revert's own change set."""
    reply = testbed.undo(changeset_id, query=query)
    assert reply.status < 300, reply.body
    revert_id = str(reply.json["revertId"])
    service.background.settle()
    if reply.status == 202:
        (message,) = testbed.queues["reverts"].take()
        testbed.deliver(message, context=ExpiredContext())
        testbed.work()
        assert testbed.run(changeset_id, revert_id).json["state"] == "done"
    testbed.settle()
    return revert_id


SCENARIOS: dict[str, Callable[[Service], None]] = {
    scenario.__name__: scenario
    for scenario in (
        every_route,
        from_upload_to_pictures,
        videos_with_subtitles,
        captions_and_chapters,
        more_videos_than_a_quota,
        unreadable_file,
        stuck_jobs,
        totals_and_years,
        scheduled_publication,
        streamed_counts,
        many_views,
        removals,
        rankings_of_views,
        compacted_archive,
        saved_questions,
        search_queries,
        reverted_change_sets,
        webhooks_and_feed,
        more_webhooks_than_a_quota,
    )
}


@pytest.fixture(scope="module")
def roles(defaults: Templates) -> dict[str, IamRole]:
    """Return the role of each function."""
    return {folder: IamRole(defaults.statements(folder)) for folder in FUNCTIONS}


@pytest.fixture(scope="module")
def watched(roles: dict[str, IamRole]) -> PolicyWatch:
    """Run all scenarios and access patterns, and return the watch with the recorded accesses of all functions."""
    watch = PolicyWatch(roles)
    for scenario in SCENARIOS.values():
        with mock_aws():
            scenario(Service(watch))
    with mock_aws():
        api = Service(watch).api
        for arrange, call in CALLS.values():
            call(api, arrange(api))
    return watch


UNTESTED: dict[str, str] = {
    "logs:CreateLogStream": "Lambda writes the log",
    "logs:PutLogEvents": "Lambda writes the log",
    "sqs:DeleteMessage": "Lambda empties the queue",
    "sqs:GetQueueAttributes": "Lambda empties the queue",
    "sqs:ReceiveMessage": "Lambda empties the queue",
    "dynamodb:DescribeStream": "Lambda reads the stream",
    "dynamodb:GetRecords": "Lambda reads the stream",
    "dynamodb:GetShardIterator": "Lambda reads the stream",
    "dynamodb:ListStreams": "Lambda reads the stream",
    "s3:PutObject Archive/aws/lambda/*": "Lambda keeps what it gives up of the stream",
    "s3:ListBucket Archive": "Lambda asks for it before it takes a bucket for what it gives up",
    "s3:ListBucket Media": "without it S3 answers 403 instead of 404 for captions whose text is gone",
    "s3:ListBucket Sources": "without it S3 answers 403 instead of 404 for a film that is gone",
    "secretsmanager:GetSecretValue WebhookSecret": "read once, before the first signature; the tests have a secret of their own",
    "secretsmanager:GetSecretValue CursorSecret": "read once, before the first cursor; the tests have a secret of their own",
}
"""Permissions that no scenario uses, with the reason: an action, or an action and its resource."""


def test_every_role_allows_exactly_the_requests_of_its_function(defaults: Templates, watched: PolicyWatch) -> None:
    unused = {line for folder in FUNCTIONS for line in _unused(defaults, watched, folder)}
    assert (sorted(set(watched.refused)), sorted(unused)) == ([], [])


def _unused(defaults: Templates, watched: PolicyWatch, folder: str) -> Iterator[str]:
    """Yield the permissions that a function never used: actions, resources and key prefixes."""
    done = [access for function, access in watched.accesses if function == folder]
    for statement in defaults.statements(folder):
        patterns = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["*"])
        for action in as_list(statement["Action"]):
            for resource in map(to_text, as_list(statement["Resource"])):
                if {action, f"{action} {resource}"} & UNTESTED.keys():
                    continue
                keys = {
                    key
                    for access in done
                    if access.action == action and fnmatchcase(access.resource, resource)
                    for key in access.context.get("dynamodb:LeadingKeys", [""])
                }
                for pattern in as_list(patterns):
                    if not any(fnmatchcase(key, pattern) for key in keys):
                        yield f"{folder}: {action} {resource} {pattern}"


def test_wildcards_are_only_in_the_documented_resources(defaults: Templates) -> None:
    wildcards = set()
    for folder in FUNCTIONS:
        for statement in defaults.statements(folder):
            assert not [action for action in as_list(statement["Action"]) if "*" in action]
            wildcards |= {resource for resource in map(to_text, as_list(statement["Resource"])) if "*" in resource}
    assert wildcards == WILDCARDS.keys()


def _item(
    action: str,
    pk: str,
    *attributes: str,
    table: str = "Table",
    select: str | None = None,
    returning: str | None = None,
) -> Access:
    context = {
        "dynamodb:LeadingKeys": frozenset({pk}),
        "dynamodb:Attributes": frozenset({"pk", "sk", *attributes}),
        "dynamodb:Select": frozenset({select} if select else ()),
        "dynamodb:ReturnValues": frozenset({returning} if returning else ()),
    }
    return Access(f"dynamodb:{action}", table, {name: values for name, values in context.items() if values})


VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
WRITES = ("BatchWriteItem", "DeleteItem", "PutItem", "UpdateItem")
READS = ("BatchGetItem", "GetItem", "Query")
UNDO = {"undo", "reverts"}
"""Functions that revert changes. They may write every attribute that users may write."""
SUBSCRIBERS = {"webhooks", "deliveries"}
"""Functions that store webhooks or deliver to them."""

FORBIDDEN: list[tuple[str, set[str], list[Access]]] = [
    (
        "scan a table or an index",
        set(),
        [_item("Scan", "VIDEO#v", table=table) for table in ("Table", "AuditTable", "Table/index/RelationIndex")],
    ),
    (
        "use PartiQL, which takes no heed of leading keys",
        set(),
        [_item(f"PartiQL{action}", "VIDEO#v") for action in ("Select", "Insert", "Update", "Delete")],
    ),
    (
        "export, restore, delete or change a table",
        set(),
        [
            _item(action, "VIDEO#v", table=table)
            for table in ("Table", "AuditTable")
            for action in ("DeleteTable", "UpdateTable", "ExportTableToPointInTime", "UpdateTimeToLive", "CreateBackup")
        ],
    ),
    (
        "touch a table of somebody else",
        set(),
        [_item(operation, "VIDEO#v", table="Other") for operation in (*READS, *WRITES)],
    ),
    (
        "read or write without naming whose items",
        set(),
        [Access(f"dynamodb:{action}", table) for action in (*READS, *WRITES) for table in ("Table", "AuditTable")],
    ),
    ("count a view", {"views"}, [_item("UpdateItem", "VIEWS#v#0", "views", "schemaVersion")]),
    ("say why a view does not count", {"views"}, [_item("UpdateItem", "VIEWS#v#0", "owner", "hour", "schemaVersion")]),
    ("mark the view of a viewer", {"views"}, [_item("PutItem", "VIEWER#v#1")]),
    ("change the marker of a view", set(), [_item("UpdateItem", "VIEWER#v#1", "at")]),
    ("set or move a count in another way", set(), [_item("UpdateItem", "VIEWS#v#0", "total")]),
    (
        "add views of viewers, or remember which were counted",
        {"tallies"},
        [_item("UpdateItem", "VIEWS#v#0", name) for name in ("keyed", "seen", "tally")],
    ),
    (
        "put a count",
        set(),
        [
            _item(action, pk, "views")
            for action in ("PutItem", "BatchWriteItem")
            for pk in ("VIEWS#v#0", f"VIEWS#{VIDEO_ID}#0")
        ],
    ),
    ("keep what a counter had when an hour began", {"tallies"}, [_item("PutItem", f"VIEWS#{VIDEO_ID}", "starts")]),
    ("remove a count, with its video", {"purge"}, [_item("DeleteItem", "VIEWS#v#0")]),
    (
        "change a title or an owner",
        {"videos"} | UNDO,
        [_item("UpdateItem", "VIDEO#v", name) for name in ("title", "userId")],
    ),
    ("publish", {"videos"} | UNDO, [_item("UpdateItem", "VIDEO#v", "visibility")]),
    ("change a video and ratings at once", {"videos"} | UNDO, [_item("UpdateItem", "VIDEO#v", "votes", "title")]),
    ("move a video's votes", {"videos", "tallies"} | UNDO, [_item("UpdateItem", "VIDEO#v", "votes", "sum")]),
    ("replace what other services' users think", {"videos"} | UNDO, [_item("UpdateItem", "VIDEO#v", "imported")]),
    (
        "raise an owner's allowance of jobs",
        {"uploads", "jobs"} | UNDO,
        [_item("UpdateItem", "USER#alice", "jobs", "last", "purgeAt")],
    ),
    ("reserve a unique value", {"videos"} | UNDO, [_item("PutItem", "UNIQUE#alice#slug#s", "videoId")]),
    ("free a unique value", {"videos", "purge"} | UNDO, [_item("DeleteItem", "UNIQUE#alice#slug#s")]),
    ("say how many playlists a user has", {"playlists"} | UNDO, [_item("UpdateItem", "USER#alice", "playlists")]),
    ("say how many videos a user has", {"aggregates"}, [_item("UpdateItem", "USER#alice", "ready", "bytes")]),
    ("change what somebody rated", set(), [_item("UpdateItem", "RATINGS#v#7", "value")]),
    ("give, replace or take back a rating", {"ratings"}, [_item("PutItem", "RATINGS#v#7", "value")]),
    ("remove a rating, with its video", {"purge"}, [_item("BatchWriteItem", "RATINGS#v#7")]),
    ("remove a rating in another way", set(), [_item("DeleteItem", pk) for pk in ("RATINGS#v#7", "USER#alice")]),
    ("change how often a tag is used", {"aggregates"}, [_item("UpdateItem", "TAGCOUNT#t", "count")]),
    ("find what one request wrote", {"history"} | UNDO, [Access("dynamodb:Query", "AuditTable/index/ChangesetIndex")]),
    (
        "see what a key once answered",
        {"videos", "playlists", "webhooks"},
        [_item("GetItem", "IDEMPOTENCY#alice#createVideo#k")],
    ),
    (
        "add to the audit trail",
        {"audit"},
        [_item("PutItem", pk, table="AuditTable") for pk in ("VIDEO#v", "PLAYLIST#p")],
    ),
    (
        "read the audit trail",
        {"videos", "history"} | UNDO,
        [_item("Query", pk, table="AuditTable") for pk in ("VIDEO#v", "PLAYLIST#p")],
    ),
    (
        "append to the feed",
        {"audit"},
        [_item("PutItem", pk, table="AuditTable") for pk in ("CHANGES#0", "OWNERCHANGES#alice")],
    ),
    (
        "follow the feed",
        {"audit", "history", "indexer", "search"} | SUBSCRIBERS,
        [_item("Query", pk, table="AuditTable") for pk in ("CHANGES#0", "OWNERCHANGES#alice")],
    ),
    (
        "change or remove what the feed has",
        set(),
        [
            _item(action, pk, table="AuditTable")
            for action in ("UpdateItem", "DeleteItem", "BatchWriteItem")
            for pk in ("CHANGES#0", "OWNERCHANGES#alice")
        ],
    ),
    ("make a webhook, or say how far it is", SUBSCRIBERS, [_item("PutItem", "WEBHOOK#w", "url")]),
    ("remove a webhook", {"webhooks"}, [_item("DeleteItem", "WEBHOOK#w")]),
    ("say which webhooks a user has", {"webhooks"}, [_item("UpdateItem", "USER#alice", "ids")]),
    ("sign as a webhook does", SUBSCRIBERS, [Access("secretsmanager:GetSecretValue", "WebhookSecret")]),
    ("wake who follows", {"audit", "sweeper"} | SUBSCRIBERS, [Access("sqs:SendMessage", "DeliveriesQueue")]),
    ("put events on a bus that nobody has named", set(), [Access("events:PutEvents", "*")]),
    ("ask for a change set to be taken back, or report of it", UNDO, [_item("PutItem", "REVERT#r")]),
    ("say how far a change set is taken back", {"reverts"}, [_item("UpdateItem", "REVERT#r", "state", "turn")]),
    (
        "see how far a change set is taken back",
        {"history", "reverts"},
        [_item(action, "REVERT#r") for action in ("GetItem", "Query")],
    ),
    (
        "see an owner's items by writing beside them",
        set(),
        [
            _item("UpdateItem", "USER#alice", *named, returning=returning)
            for named in (("jobs",), ("playlists",), ("ready",))
            for returning in ("ALL_NEW", "ALL_OLD", "UPDATED_NEW", "UPDATED_OLD")
        ],
    ),
    (
        "see a whole item by changing it",
        {"jobs", "probe", "thumbnails"},
        [_item("UpdateItem", "VIDEO#v", "state", returning="ALL_NEW")],
    ),
    (
        "see what it replaces or removes",
        set(),
        [
            _item(action, pk, returning="ALL_OLD")
            for action in ("PutItem", "DeleteItem")
            for pk in (
                "VIDEO#v",
                "RATINGS#v#7",
                "USER#alice",
                "PLAYLIST#p",
                "REVERT#r",
                "VIEWS#v#0",
                "VIEWER#v#7",
                "IDEMPOTENCY#alice#o#k",
            )
        ],
    ),
    (
        "see what the audit trail has by replacing it",
        set(),
        [_item("PutItem", "VIDEO#v", table="AuditTable", returning="ALL_OLD")],
    ),
    (
        "change or remove what the audit trail has",
        set(),
        [
            _item(action, pk, table="AuditTable")
            for action in ("UpdateItem", "DeleteItem", "BatchWriteItem")
            for pk in ("VIDEO#v", "PLAYLIST#p")
        ],
    ),
    (
        "remove from the archive, or versions of what is in it",
        set(),
        [
            Access(f"s3:{action}", f"Archive/{folder}/x")
            for action in ("DeleteObject", "DeleteObjectVersion", "PutObjectRetention", "BypassGovernanceRetention")
            for folder in ("audit", "aws")
        ],
    ),
    (
        "let the archive keep less",
        set(),
        [Access(f"s3:{action}", "Archive") for action in ("PutBucketVersioning", "PutLifecycleConfiguration")],
    ),
    ("read the archive", {"compactor"}, [Access("s3:GetObject", "Archive/audit/x")]),
    (
        "change the tables over the archive",
        {"compactor"},
        [
            Access("s3:PutObject", f"Analytics/{folder}/x")
            for folder in ("changes", "changed_fields", "manifests", "staged", "videos", "views")
        ],
    ),
    ("read an export of the table", {"compactor"}, [Access("s3:GetObject", "Analytics/exports/x")]),
    (
        "change an export of the table, or request one",
        set(),
        [Access("s3:PutObject", "Analytics/exports/x"), Access("dynamodb:ExportTableToPointInTime", "Table")],
    ),
    (
        "query the tables over the archive, or read results of queries",
        {"history"},
        [
            Access("athena:StartQueryExecution", "athena:workgroup/VideoMetadata"),
            Access("s3:GetObject", "Analytics/results/x"),
        ],
    ),
    (
        "remove rows from the tables over the archive, or query in another workgroup",
        set(),
        [
            Access("s3:DeleteObject", "Analytics/changes/x"),
            Access("athena:StartQueryExecution", "athena:workgroup/primary"),
        ],
    ),
    ("read a film", {"arrivals", "playback", "probe", "thumbnails"}, [Access("s3:GetObject", "Sources/v/u")]),
    ("read a rendition", {"playback"}, [Access("s3:GetObject", "Media/renditions/v/h/x.mp4")]),
    ("read a picture past CloudFront", set(), [Access("s3:GetObject", "Media/thumbnails/v/x.jpg")]),
    ("write a film", {"uploads"}, [Access("s3:PutObject", "Sources/v/u")]),
    ("write a picture", {"thumbnails"}, [Access("s3:PutObject", "Media/thumbnails/v/x.jpg")]),
    (
        "read captions",
        {"captions", "indexer", "playback", "search"},
        [Access("s3:GetObject", "Media/captions/v/h.vtt")],
    ),
    ("write captions", {"captions", "thumbnails"}, [Access("s3:PutObject", "Media/captions/v/h.vtt")]),
    (
        "say what search finds",
        {"indexer"},
        [
            _item("UpdateItem", "INDEX", "generation"),
            *(Access(f"s3:{action}", "Media/index/g/x") for action in ("PutObject", "DeleteObject")),
        ],
    ),
    ("write a rendition", set(), [Access("s3:PutObject", "Media/renditions/v/x.mp4")]),
    (
        "remove films and pictures",
        {"purge"},
        [Access("s3:DeleteObject", object_) for object_ in ("Sources/v/u", "Media/thumbnails/v/x")],
    ),
    (
        "change what a bucket is",
        set(),
        [Access(f"s3:{action}", "Media") for action in ("PutBucketPolicy", "DeleteBucket")],
    ),
    ("take a message of the transcoders", set(), [Access("sqs:ReceiveMessage", "TranscodeQueue")]),
    (
        "let a job be worked on",
        {"stream_router"},
        [Access("sqs:SendMessage", f"{queue}Queue") for queue in ("Probe", "Thumbnails", "Transcode")],
    ),
    (
        "take a role or make a key",
        set(),
        [Access(action, "*") for action in ("sts:AssumeRole", "iam:PassRole", "iam:CreateAccessKey")],
    ),
    (
        "learn of a video more than who may see it",
        {"aggregates", "arrivals", "captions", "jobs", "probe", "purge", "relations", "stream_router", "sweeper"}
        | {"thumbnails", "uploads", "videos", "playback", "history"}
        | UNDO,
        [
            access
            for operation in ("GetItem", "BatchGetItem")
            for access in (
                _item(operation, "VIDEO#v", select="ALL_ATTRIBUTES"),
                _item(operation, "VIDEO#v", "source", select="SPECIFIC_ATTRIBUTES"),
            )
        ],
    ),
]
"""Probes of every role: a description, the permitted roles, and the requests to check.

A permitted role is allowed at least one of the requests.
"""


@pytest.mark.parametrize(
    ("description", "allowed", "attempts"), FORBIDDEN, ids=[description for description, _, _ in FORBIDDEN]
)
def test_forbidden_action_is_allowed_only_to_the_listed_roles(
    roles: dict[str, IamRole], description: str, allowed: set[str], attempts: list[Access]
) -> None:
    may = {folder for folder, role in roles.items() for attempt in attempts if role.refusal(attempt) is None}
    assert may == allowed


QUERYING = (
    Access("athena:StopQueryExecution", "athena:workgroup/VideoMetadata"),
    *accesses(
        "athena",
        "StartQueryExecution",
        {
            "QueryExecutionContext": {"Database": "video_metadata"},
            "QueryString": "FROM changes JOIN FROM changed_fields",
        },
    ),
    *accesses("athena", "GetQueryExecution", {}),
    *accesses("athena", "GetQueryResults", {}),
)
"""Accesses of a person who queries the tables and cancels a query."""


def test_policy_of_people_who_query_allows_only_queries(defaults: Templates, encrypted: Templates) -> None:
    ((_, policy),) = defaults.all("AWS::IAM::ManagedPolicy").items()
    person = IamRole(policy["Properties"]["PolicyDocument"]["Statement"])
    assert [reason for access in QUERYING if (reason := person.refusal(access))] == []
    permitted = {action for statement in person.statements for action in as_list(statement["Action"])}
    assert permitted == {access.action for access in QUERYING}
    refused = [
        Access("athena:StartQueryExecution", "athena:workgroup/primary"),
        *(Access("s3:GetObject", key) for key in ("Archive/audit/x", "Analytics/exports/x", "Analytics/manifests/x")),
        *(
            Access("s3:PutObject", f"Analytics/{table.key(entity='video', day='2026-01-31')}")
            for table in ARCHIVE_TABLES
        ),
    ]
    assert [access for access in refused if person.refusal(access) is None] == []
    ((_, policy),) = encrypted.all("AWS::IAM::ManagedPolicy").items()
    (key,) = (each for each in policy["Properties"]["PolicyDocument"]["Statement"] if "Condition" in each)
    assert (key["Action"], to_text(key["Resource"])) == (["kms:Decrypt", "kms:GenerateDataKey"], "Key")


def test_view_counters_are_written_and_deleted_by_listed_functions_only(defaults: Templates) -> None:
    writing: dict[str, set[str]] = {}
    for folder in FUNCTIONS:
        for line in defaults.allowed(folder):
            action, *named = line.partition(":")[2].split(":")[0].split()
            if action in WRITES and any(key.startswith("VIEWS#") for key in named):
                writing.setdefault(folder, set()).add(action)
    assert writing.pop("purge") == {"DeleteItem"}
    assert writing.pop("rankings", {"UpdateItem"}) == {"UpdateItem"}
    assert writing == {"views": {"UpdateItem"}, "tallies": {"PutItem", "UpdateItem"}}


@pytest.mark.parametrize(
    ("folder", "indexes"),
    [
        (
            "videos",
            {
                *("UserIdIndex", "CategoryIndex", "RelationIndex"),
                *("YearIndex", "UserDurationIndex", "CategoryDurationIndex"),
                *("UserOrderIndex", "CategoryOrderIndex"),
            },
        ),
        *(
            (folder, {"RelationIndex"})
            for folder in (
                *("relations", "playlists", "totals", "purge", "sweeper", "rankings", "deliveries", "webhooks"),
                *("indexer", "reverts", "undo"),
            )
        ),
    ],
)
def test_indexes_are_queried_by_listed_roles_only(roles: dict[str, IamRole], folder: str, indexes: set[str]) -> None:
    queries = {
        name: Access("dynamodb:Query", f"Table/index/{name}") for name in (index.name for index in schema.INDEXES)
    }
    allowed = {
        name: {role for role in roles if roles[role].refusal(access) is None} for name, access in queries.items()
    }
    assert {name for name, folders in allowed.items() if folder in folders} == indexes
    assert set().union(*allowed.values()) == {
        *("videos", "relations", "playlists", "totals", "purge", "sweeper", "rankings", "deliveries", "webhooks"),
        *("indexer", "reverts", "undo"),
    }


def test_roles_with_return_values_may_read_the_whole_item(defaults: Templates, roles: dict[str, IamRole]) -> None:
    """`ALL_NEW` reads the whole item, whatever the attribute list."""
    folders = set()
    for folder in FUNCTIONS:
        for statement in defaults.statements(folder):
            conditions = statement.get("Condition", {})
            if {*as_list(conditions.get("StringEqualsIfExists", {}).get("dynamodb:ReturnValues", []))} > {"NONE"}:
                for pattern in as_list(conditions["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]):
                    folders.add(folder)
                    refusals = [
                        roles[folder].refusal(_item(read, pattern.replace("*", "x"), "any", select="ALL_ATTRIBUTES"))
                        for read in ("GetItem", "BatchGetItem")
                    ]
                    assert None in refusals, refusals
    assert folders == {"views", "jobs", "probe", "thumbnails"}


def test_unknown_condition_is_not_ignored() -> None:
    statement = {
        "Action": "s3:GetObject",
        "Resource": "Media/x",
        "Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}},
    }
    with pytest.raises(NotImplementedError, match="IpAddress"):
        IamRole([statement]).refusal(Access("s3:GetObject", "Media/x"))


def test_page_lists_the_permissions_of_each_function_and_every_wildcard(defaults: Templates) -> None:
    assert page_tables.is_current(page_tables.PERMISSIONS, page_tables.permissions(defaults)), page_tables.HINT
