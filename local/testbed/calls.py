"""Example requests: for each operation, a request with values from the OpenAPI document, and for each access pattern, a
request with a setup."""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock
from uuid import uuid4

from functions.arrivals import handler as arrivals
from functions.rankings import handler as rankings
from functions.reverts import handler as reverts
from functions.sweeper import handler as sweeper
from local.access_patterns import ACCESS_PATTERNS
from local.stream_records import stream_record
from local.testbed import streams
from local.testbed.audited import AuditedService
from local.testbed.background import RENDITIONS, BackgroundWork, make_audit
from local.testbed.counted_views import CountedViews
from local.testbed.deliveries import DeliveryTestbed
from local.testbed.feed_changes import append_changes, change
from local.testbed.harness import MEDIA_BUCKET, NOW, SOURCES_BUCKET, Api, Context, FakeResources, Reply
from shared import schema
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.background.aggregates import Aggregates
from shared.background.ledger import deduplication_key
from shared.background.tallies import Tallies
from shared.core.caller import Caller, request_id_of
from shared.feed.log import Feed
from shared.openapi.document import document
from shared.openapi.spec import EXAMPLE_ID
from shared.processing.desired_jobs import input_hash
from shared.processing.messages import TallyMessage, parse, revert_message, tally_message
from shared.processing.uploads import LARGEST_PUT, MIB
from shared.relations.entry_updates import EntryUpdater
from shared.routes import READ, ROUTES, WRITE, Route
from shared.search.builder import BuildPosition, IndexBuilder, read_video_ids
from shared.search.generations import EmbeddedStore, Generations, LocalCopy
from shared.search.loader import DocumentLoader
from shared.videos.counters import ViewCounters
from shared.videos.orders import views_value
from shared.videos.sort_entries import SortEntries
from shared.videos.store import VideoStore
from shared.web.requests import JSON, MERGE_PATCH

Arrange = Callable[[Api], str]
"""Setup of a call: a function that creates the items that the call needs. It returns the call's argument, usually an id
or a path."""
Call = Callable[[Api, str], Reply]

_OPENAPI = document()
MISSING = EXAMPLE_ID
"""Id of a video, playlist or webhook that does not exist."""
UPLOAD = "019775a1c00-9f86d081884c7d65"


def _documented(route: Route) -> dict[str, Any]:
    spec: dict[str, Any] = _OPENAPI["paths"][route.path][route.method.lower()]
    return spec


def _examples_of_bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each operation that requires a JSON body, and the first example of that body in the OpenAPI document."""
    for route in ROUTES:
        body = _documented(route).get("requestBody", {"required": False})
        if body["required"]:
            content = next(body["content"][kind] for kind in (JSON, MERGE_PATCH) if kind in body["content"])
            example, *_ = [content["example"]] if "example" in content else [*content["examples"].values()]
            yield route.operation, example if "example" in content else example["value"]


BODIES: Mapping[str, dict[str, Any]] = {
    **dict(_examples_of_bodies()),
    "createVideo": {"title": "t"},
    "patchVideo": {"title": "u"},
    "batchVideos": {"operations": [{"op": "delete", "videoId": MISSING}]},
    "countViews": {"views": [{"id": "v", "videoId": MISSING, "at": NOW}]},
    "createUpload": {"contentType": "video/mp4", "fileSize": 1000},
    "completeUpload": {"parts": [{"partNumber": 1, "etag": "e"}]},
    "chooseThumbnail": {"position": 1000},
    "reportRendition": {"inputHash": "0" * 32, "attempt": 1, "state": "running"},
    "putChapters": {"chapters": [{"start": 0, "title": "t"}]},
    "createPlaylist": {"title": "t"},
    "moveEntry": {"after": None},
    "revertVideo": {"toVersion": 1},
    "createWebhook": {"url": "https://hooks.acme.com/"},
    "replayWebhook": {"from": NOW},
}
"""Request bodies by operation. Most are examples from the OpenAPI document. Operations without a required body have
none."""

QUERIES = {
    "batchVideos": "dryRun=true",
    "getDiff": "from=1",
    "getFolder": "userId=alice",
    "listFolders": "userId=alice",
    "getVideoByExternalId": "userId=alice",
    "getVideoBySlug": "userId=alice",
}
"""Query strings by operation, for operations that need one.

With `dryRun`, the whole batch fails if its videos cannot be read, so the status of the response shows the error.
Otherwise only the results of the single operations would show the error.
"""

PATH_PARAMETERS: Mapping[str, str] = {
    **{
        parameter["name"]: str(parameter["example"])
        for route in ROUTES
        for parameter in _documented(route).get("parameters", ())
        if parameter.get("in") == "path" and "example" in parameter
    },
    "asset": "start.js",
    "uploadId": UPLOAD,
    "name": "360p",
    "kind": "poster",
    "userId": "alice",
    "personId": "sam",
    "language": "mi",
    "playlistId": MISSING,
    "changesetId": "never-was",
    "revertId": "never-was",
    "moveId": "never-was",
    "webhookId": MISSING,
}
"""Values of path parameters, by name of the parameter. Most are examples of the OpenAPI document."""


def path_of(route: Route, **parameters: str) -> str:
    """Return the path of a route with the parameters in `parameters`. PATH_PARAMETERS provides all other parameters."""
    return route.path.format_map({**PATH_PARAMETERS, **parameters})


def put_examples(api: Api, function: str, user: str = "alice", **parameters: str) -> None:
    """Send the example request of each PUT operation of a function. This creates the resources that the function's
    other operations need."""
    for route in ROUTES:
        if (route.function, route.method) == (function, "PUT") and route.scope in (READ, WRITE):
            reply = api.put(path_of(route, **parameters), BODIES[route.operation], user=user)
            assert reply.status in (200, 201), (route.operation, reply.body)


KEY = {"Idempotency-Key": "k1"}
RANGE = "from=0&to=2000000000"
MOVE = {"folder": "a", "to": "b"}
CREDIT = {"ordering": 1, "roles": [{"category": "actor"}]}
RELEASE = {"titles": [{"title": "t"}]}
WEBHOOK = {"url": "https://hooks.acme.com/"}


def _deleted(api: Api) -> str:
    video_id = str(api.create()["videoId"])
    api.delete(f"/v1/videos/{video_id}")
    return video_id


def _published(api: Api) -> str:
    return str(api.publish(category="c")["videoId"])


def _with_year_and_duration(api: Api) -> str:
    return str(api.publish(category="c", releaseYear=1999, duration=60_000)["videoId"])


def _with_folder(api: Api) -> str:
    return str(api.publish(folder="a/b")["videoId"])


def _reserved(api: Api) -> str:
    """Create a video whose external id and slug equal its videoId. Returns the id."""
    video_id = str(uuid4())
    return str(api.publish(videoId=video_id, externalId=video_id, slug=video_id)["videoId"])


def _viewed(api: Api) -> str:
    """Create a video with a view in the current hour."""
    video_id = _published(api)
    viewed = CountedViews(api.table)
    viewed.count(video_id, int(api.clock()))
    viewed.store()
    return video_id


def _send(request: str, body: Any = None, **options: Any) -> Callable[[Api, str], Reply]:
    """Return a call that sends a request such as `GET /v1/videos/{}?fields=title`. The call's argument replaces
    `{}`."""
    method, _, address = request.partition(" ")
    path, _, query = address.partition("?")
    return lambda api, made: api.request(method, path.format(made), json_body=body, query=query.format(made), **options)


def _with_film(api: Api) -> str:
    return BackgroundWork(api.table, api.clock).uploaded_film(api)


def _with_failed_poster(api: Api) -> str:
    work = BackgroundWork(api.table, api.clock)
    video_id = work.uploaded_film(api)
    attempt = work.message("thumbnails", "poster").job_attempt
    assert work.jobs.fail(attempt, "It broke.", Caller.job("thumbnails"), int(api.clock()), retry=False)
    return video_id


def _with_late_webhook(api: Api) -> str:
    """Create a failed job, and a webhook with an undelivered change."""
    relation = {"rel": schema.DUE, "relShard": 0, "relSort": NOW, "relId": "late-hook"}
    state = {"webhookId": "late-hook", "oldestWaiting": NOW * 1000, "schemaVersion": schema.SCHEMA_VERSION}
    api.table.write(api.table.put({**schema.WEBHOOK_STATE.key(webhookId="late-hook"), **relation, **state}))
    return _with_failed_poster(api)


def _report(**fields: Any) -> Callable[[Api, str], Reply]:
    film = {"etag": "e1", "fileSize": 1000}
    rendition = {"name": "360p", **RENDITIONS["360p"]}

    def call(api: Api, video_id: str) -> Reply:
        job_input = film | {"source": f"s3://sources/{video_id}/0001", "rendition": rendition}
        digest = input_hash(job_input)
        output = {"uri": f"s3://{MEDIA_BUCKET}/renditions/{video_id}/{digest}/360p.mp4"}
        body = {"inputHash": digest, "attempt": 1, **fields, **(output if fields["state"] == "done" else {})}
        path = f"/v1/videos/{video_id}/renditions/360p"
        return api.request("PUT", path, json_body=body, user="transcoder", scopes="videos/transcode")

    return call


def _sweep(api: Api, _: str) -> Reply:
    return Reply(
        200, {}, repr(FakeResources(api.table, api.clock).make(sweeper.lambda_handler)({}, Context())).encode()
    )


def _ranked(api: Api) -> str:
    video_id = _viewed(api)
    _rank(api, video_id)
    return video_id


def _rank(api: Api, _: str) -> Reply:
    return Reply(
        200, {}, repr(FakeResources(api.table, api.clock).make(rankings.lambda_handler)({}, Context())).encode()
    )


def _index(api: Api, _: str) -> Reply:
    objects = Objects(make_s3_client())
    generations = Generations(api.table, objects, MEDIA_BUCKET, api.clock)
    feed = Feed(Table(schema.AUDIT_TABLE_NAME, api.table.client), api.clock)
    films = DocumentLoader(api.table, objects, MEDIA_BUCKET)
    with TemporaryDirectory() as folder:
        run = IndexBuilder(
            EmbeddedStore(generations, LocalCopy(Path(folder))),
            api.table,
            feed,
            films,
            clock=api.clock,
            heartbeat=nullcontext,
        ).run()
    return Reply(200, {}, run.outcome.encode())


def _indexed(api: Api) -> str:
    video_id = _published_with_buckets(api)
    assert _index(api, video_id).body == b"published"
    return video_id


def _two_indexed(api: Api) -> str:
    _published(api)
    video_id = _published_with_buckets(api)
    _index(api, video_id)
    return video_id


def _searched(api: Api) -> str:
    video_id = _two_indexed(api)
    assert api.get("/v1/search").status == 200
    api.clock.advance(1)
    return video_id


def _with_cursor_of_changes(api: Api) -> str:
    _searched(api)
    return str(api.get("/v1/changes", query="userId=alice&after=now").json["nextCursor"])


def _read_film(api: Api, video_id: str) -> Reply:
    ((found, film),) = DocumentLoader(api.table, Objects(make_s3_client()), MEDIA_BUCKET).read([video_id])
    return Reply(200 if film else 404, {}, found.encode())


def _some_videos(api: Api) -> Reply:
    ids, _ = read_video_ids(api.table, BuildPosition())
    return Reply(200, {}, repr(ids).encode())


def _rated(api: Api) -> str:
    video_id = _published(api)
    assert api.put(f"/v1/videos/{video_id}/rating", {"value": 8}).status == 200
    return video_id


def _settle(api: Api, video_id: str) -> Reply:
    return Reply(200, {}, repr(Aggregates(api.table).settle([video_id], int(api.clock()))).encode())


def _with_counted_tags(api: Api) -> str:
    video_id = str(api.publish(tags=["t"])["videoId"])
    _settle(api, video_id)
    return video_id


def _with_counted_folder(api: Api) -> str:
    video_id = _with_folder(api)
    _settle(api, video_id)
    return video_id


def _hidden_by_a_job(api: Api) -> str:
    """Create a video that is hidden, because a new source file has arrived. The video's index entries still exist.

    Jobs cannot write index entries. The aggregates worker updates them later.
    """
    video_id = _with_relations(api)
    VideoStore(api.table, moves_entries=False).change(
        video_id, Caller.job("arrivals"), int(api.clock()), lambda item: item | {"status": "processing"}
    )
    return video_id


def _move_entries(api: Api, video_id: str) -> Reply:
    return Reply(200, {}, repr(EntryUpdater(api.table).update_entries(video_id, int(api.clock()))).encode())


def _with_a_view(api: Api) -> str:
    video_id = _published(api)
    ViewCounters(api.table).add(video_id, {"views": 1}, int(api.clock()))
    return video_id


def _tally(**counted: list[list[Any]]) -> Callable[[Api, str], Reply]:
    def call(api: Api, video_id: str) -> Reply:
        message = parse(TallyMessage, tally_message(video_id, counted))
        Tallies(api.table).apply([message], int(api.clock()))
        return Reply(200, {}, b"")

    return call


RATED = {"votes": 1, "sum": 8, "likes": 0, "dislikes": 0}
"""Amounts that a rating of 8 adds to totals."""


def _with_sort_entries(api: Api) -> str:
    """Create a video with one vote and one view. The video is in the lists by rating and by views."""
    video_id = _published(api)
    _tally(ratings=[[deduplication_key("ann", 1), RATED | {"sum": 6}]])(api, video_id)
    SortEntries(api.table).place(schema.BY_VIEWS, {video_id: views_value(1)}, int(api.clock()))
    return video_id


def _move_by_views(api: Api, video_id: str) -> Reply:
    SortEntries(api.table).place(schema.BY_VIEWS, {video_id: views_value(2)}, int(api.clock()))
    return Reply(200, {}, b"")


PART = b"x" * 5 * MIB
"""Content of a part of a multipart upload. It has the minimum size that S3 accepts for all parts except the last."""


def _uploading(size: int) -> Callable[[Api], str]:
    """Return a setup that starts an upload of `size` bytes, and sends the file to S3.

    The setup returns the path of the upload below /v1/videos.
    """

    def arrange(api: Api) -> str:
        client = make_s3_client()
        client.create_bucket(Bucket=SOURCES_BUCKET)
        video_id = api.create()["videoId"]
        begun = api.post(f"/v1/videos/{video_id}/upload", {"contentType": "video/mp4", "fileSize": size}).json
        key = f"{video_id}/{begun['uploadId']}"
        if "parts" in begun:
            (started,) = client.list_multipart_uploads(Bucket=SOURCES_BUCKET, Prefix=key)["Uploads"]
            for part in begun["parts"]:
                client.upload_part(
                    Bucket=SOURCES_BUCKET,
                    Key=key,
                    UploadId=started["UploadId"],
                    PartNumber=part["partNumber"],
                    Body=PART,
                )
        else:
            client.put_object(Bucket=SOURCES_BUCKET, Key=key, Body=b"x" * size, ContentType="video/mp4")
        return f"{video_id}/upload/{begun['uploadId']}"

    return arrange


def _complete(api: Api, upload: str) -> Reply:
    etag = hashlib.md5(PART, usedforsecurity=False).hexdigest()
    parts = [{"partNumber": number, "etag": etag} for number in (1, 2, 3)]
    return api.post(f"/v1/videos/{upload}/complete", {"parts": parts})


def _arrive(api: Api, upload: str) -> Reply:
    record = {"bucket": {"name": SOURCES_BUCKET}, "object": {"key": upload.replace("/upload/", "/")}}
    body = {"Records": [{"eventName": "ObjectCreated:Put", "s3": record}]}
    arrive = FakeResources(api.table, api.clock, objects=Objects(make_s3_client())).make(arrivals.lambda_handler)
    answer = arrive(streams.sqs_event(body), Context())
    assert answer == {"batchItemFailures": []}
    return Reply(200, {}, b"")


FILMS = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(4)]


def _with_playlist(api: Api) -> str:
    """Create all FILMS, and a playlist with all of them except the last one. Returns the playlist's path."""
    playlist_id = api.post("/v1/playlists", {"title": "t"}).json["playlistId"]
    for video_id in FILMS:
        if api.get(f"/v1/videos/{video_id}").status == 404:
            api.publish(videoId=video_id)
    for video_id in FILMS[:-1]:
        assert api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}).status == 201
    return f"/v1/playlists/{playlist_id}"


def _with_relations(api: Api) -> str:
    """Create a published video of 1993 with a tag, a credit and two releases."""
    video_id = str(api.publish(releaseYear=1993, tags=["t"])["videoId"])
    api.put(f"/v1/videos/{video_id}/credits/p", CREDIT)
    for place in ("NZ", "NZ/mi"):
        api.put(f"/v1/videos/{video_id}/releases/{place}", RELEASE)
    return video_id


def _published_with_buckets(api: Api) -> str:
    make_s3_client().create_bucket(Bucket=MEDIA_BUCKET)
    return _published(api)


def _caption(api: Api, video_id: str) -> Reply:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n"
    path = f"/v1/videos/{video_id}/captions/en"
    return api.request("PUT", path, body=text, headers={"Content-Type": "text/vtt"})


def _with_captions(api: Api) -> str:
    video_id = _published_with_buckets(api)
    _caption(api, video_id)
    return video_id


def _set_chapters(api: Api, video_id: str) -> Reply:
    return api.put(f"/v1/videos/{video_id}/chapters", {"chapters": [{"start": 0, "title": "t"}]})


def _with_chapters(api: Api) -> str:
    video_id = _published(api)
    _set_chapters(api, video_id)
    return video_id


def _with_episode(api: Api) -> str:
    """Create a series with one episode, and return the id of the series."""
    video_id = _published(api)
    api.publish(seriesId=video_id, season=1, episode=1)
    return video_id


def _audited(api: Api) -> AuditedService:
    """Return the API's audit trail, after it has recorded all changes so far."""
    # One object per API, because the object stores the number of records that it has read.
    audited: AuditedService = vars(api).setdefault("trailed", AuditedService(api))
    while records := audited.records():
        audited.keep(records)
    return audited


def _changed(api: Api) -> str:
    """Create a video with a change in the trail."""
    video_id = _published(api)
    api.patch(f"/v1/videos/{video_id}", {"title": "new"})
    _audited(api)
    return video_id


def _change_set(api: Api) -> str:
    """Change a video, and return the path of the change set of that request."""
    return f"/v1/changesets/{request_id_of(_audited(api).item(_changed(api)))}"


def _revert_as_large(api: Api, path: str) -> Reply:
    with mock.patch("shared.history.changeset_reverts.MAX_ENTRIES_INLINE", 0):
        return api.post(f"{path}/revert")


def _run(api: Api) -> str:
    """Start a revert of a change set in the background, and return the path of the revert."""
    path = _change_set(api)
    return f"{path}/reverts/{_revert_as_large(api, path).json['revertId']}"


def _work_on_run(api: Api, path: str) -> Reply:
    work = FakeResources(api.table, api.clock).make(reverts.lambda_handler)
    event = streams.sqs_event(revert_message(path.rpartition("/")[2]))
    assert work(event, Context()) == {"batchItemFailures": []}
    return Reply(200, {}, b"")


def _moving(api: Api) -> str:
    """Start to move a folder, and return the path of the move."""
    _with_folder(api)
    return f"/v1/folder-moves/{api.post('/v1/folder-moves', MOVE).json['moveId']}"


def _with_unread_change(api: Api) -> str:
    """Append a change to the feed, and return the id of its video. No consumer has read the change."""
    append_changes(Feed(Table(schema.AUDIT_TABLE_NAME, api.table.client), api.clock), change(videoId=FILMS[0]))
    return FILMS[0]


def _audit(api: Api, video_id: str) -> Reply:
    item = schema.VIDEO.key(videoId=video_id) | {"videoId": video_id, "userId": "alice", "title": "t", "version": 1}
    record = stream_record(None, item)
    audited = make_audit(Table(schema.AUDIT_TABLE_NAME, api.table.client), api.clock)
    assert audited(streams.event(record), Context()) == {"batchItemFailures": []}
    return Reply(200, {}, b"")


def _with_webhook(api: Api) -> str:
    """Append a change to the feed, create a webhook, and return the webhook's path."""
    append_changes(Feed(Table(schema.AUDIT_TABLE_NAME, api.table.client), api.clock), change())
    return f"/v1/{api.post('/v1/webhooks', WEBHOOK).headers['location']}"


def _with_deliveries(api: Api) -> str:
    path = _with_webhook(api)
    key = schema.WEBHOOK_ATTEMPTS.key(webhookId=path.rpartition("/")[2], at=f"{NOW * 1000:013}", turn=1)
    attempts = zlib.compress(json.dumps([{"changeId": "c"}]).encode())
    api.table.write(api.table.put(key | {"attempts": attempts, schema.TTL_ATTRIBUTE: NOW + 1}))
    return path


def _with_changes(api: Api) -> str:
    """Create a change that was not delivered to the webhook `hook`. Creates the webhook if it does not exist. Returns
    the webhook's id."""
    service = DeliveryTestbed(api.table, api.clock)
    if service.hooks.read("hook") is None:
        service.create()
    service.change("c")
    return "hook"


def _notify_subscribers(api: Api, _: str) -> Reply:
    assert "hook" in DeliveryTestbed(api.table, api.clock).notify("alice")
    return Reply(200, {}, b"")


def _serve(api: Api, webhook_id: str) -> Reply:
    service = DeliveryTestbed(api.table, api.clock)
    assert service.deliver(webhook_id)
    return Reply(200, {}, repr(service.receiver.ids).encode())


def _example(request: str) -> tuple[Arrange, Call]:
    """Return the setup and the call of a request such as `GET /v1/videos/{videoId}`. Raises ValueError if the API has
    no such route.

    The call concerns a published video. Unless the method is PUT, the setup first calls all PUT operations of the same
    Lambda function, so that their resources exist.
    """
    (route,) = (candidate for candidate in ROUTES if candidate.key == request)

    def arrange(api: Api) -> str:
        video_id = _published(api)
        if route.method != "PUT":
            put_examples(api, route.function, videoId=video_id)
        return video_id

    def call(api: Api, video_id: str) -> Reply:
        body, query = BODIES.get(route.operation), QUERIES.get(route.operation, "")
        return api.request(route.method, path_of(route, videoId=video_id), json_body=body, query=query)

    return arrange, call


OWN_CALLS: Mapping[str, tuple[Arrange, Call]] = {
    "POST /v1/videos": (lambda _: "", _send("POST /v1/videos", {"title": "t"})),
    "POST /v1/videos (Idempotency-Key)": (lambda _: "", _send("POST /v1/videos", {"title": "t"}, headers=KEY)),
    "POST /v1/videos (externalId)": (
        lambda _: str(uuid4()),
        lambda api, unique: api.post("/v1/videos", {"title": "t", "externalId": unique}),
    ),
    "PATCH /v1/videos/{videoId} (externalId)": (
        _reserved,
        lambda api, video_id: api.patch(f"/v1/videos/{video_id}", {"externalId": str(uuid4())}),
    ),
    "GET /v1/external-ids/{externalId}": (_reserved, _send("GET /v1/external-ids/{}")),
    "GET /v1/slugs/{slug}": (_reserved, _send("GET /v1/slugs/{}")),
    "GET /v1/videos/{videoId}": (_published, _send("GET /v1/videos/{}")),
    "GET /v1/videos/{videoId}?fields=title": (_published, _send("GET /v1/videos/{}?fields=title")),
    "PATCH /v1/videos/{videoId}": (_published, _send("PATCH /v1/videos/{}", {"title": "new"})),
    "DELETE /v1/videos/{videoId}": (_published, _send("DELETE /v1/videos/{}")),
    "POST /v1/videos/{videoId}/restore": (_deleted, _send("POST /v1/videos/{}/restore")),
    "POST /v1/videos/{videoId}/restore (Idempotency-Key)": (_deleted, _send("POST /v1/videos/{}/restore", headers=KEY)),
    "GET /v1/videos?userId=u&from=t&to=t": (_published, _send(f"GET /v1/videos?userId=alice&{RANGE}")),
    "GET /v1/videos?userId=u&tag=t": (_with_relations, _send("GET /v1/videos?userId=alice&tag=t")),
    "GET /v1/videos?category=c&from=t&to=t": (_published, _send(f"GET /v1/videos?category=c&{RANGE}")),
    "GET /v1/videos?category=c&releaseYear=y&from=t&to=t": (
        _with_year_and_duration,
        _send(f"GET /v1/videos?category=c&releaseYear=1999&{RANGE}"),
    ),
    "GET /v1/videos?category=c&sort=duration&minDuration=d&maxDuration=d": (
        _with_year_and_duration,
        _send("GET /v1/videos?category=c&sort=duration&minDuration=1&maxDuration=90000"),
    ),
    "GET /v1/videos?userId=u&sort=duration&minDuration=d&maxDuration=d": (
        _with_year_and_duration,
        _send("GET /v1/videos?userId=alice&sort=duration&minDuration=1&maxDuration=90000"),
    ),
    "GET /v1/videos?category=c&sort=title": (_published, _send("GET /v1/videos?category=c&sort=title")),
    "GET /v1/videos?userId=u&sort=title": (_published, _send("GET /v1/videos?userId=alice&sort=title")),
    "GET /v1/videos?folder=a/b": (_with_folder, _send("GET /v1/videos?folder=a/b")),
    "GET /v1/videos?folder=a/b&subfolders=true": (_with_folder, _send("GET /v1/videos?folder=a/b&subfolders=true")),
    "PATCH /v1/videos/{videoId} (folder)": (_with_folder, _send("PATCH /v1/videos/{}", {"folder": "a"})),
    "GET /v1/videos?from=t&to=t": (_published, _send(f"GET /v1/videos?{RANGE}")),
    "GET /v1/videos?userId=u&include=stats": (_published, _send("GET /v1/videos?userId=alice&include=stats")),
    "GET /v1/videos?status=failed": (_published, _send("GET /v1/videos?status=failed", user="admin")),
    "GET /v1/videos?status=ready": (_published, _send("GET /v1/videos?status=ready", user="admin")),
    "GET /v1/videos?tag=t&from=t&to=t": (_with_relations, _send(f"GET /v1/videos?tag=t&{RANGE}")),
    "GET /v1/videos?region=NZ&from=t&to=t": (_with_relations, _send(f"GET /v1/videos?region=NZ&{RANGE}")),
    "GET /v1/videos/{videoId}/episodes": (_with_episode, _send("GET /v1/videos/{}/episodes")),
    "PATCH /v1/videos/{videoId} (tags)": (_with_relations, _send("PATCH /v1/videos/{}", {"tags": ["t", "u"]})),
    "POST /v1/videos/batch-get": (_published, lambda api, v: api.post("/v1/videos/batch-get", {"videoIds": [v]})),
    "POST /v1/videos/{videoId}/views": (_published, _send("POST /v1/videos/{}/views", user="bob")),
    "POST /v1/videos/{videoId}/views (Idempotency-Key)": (
        _published,
        _send("POST /v1/videos/{}/views", headers=KEY, user="bob"),
    ),
    "POST /v1/views": (
        _published,
        lambda api, v: api.post("/v1/views", {"views": [{"id": "v", "videoId": v, "at": NOW}]}, user="bob"),
    ),
    "GET /v1/videos/{videoId}/views?granularity=hour": (_viewed, _send("GET /v1/videos/{}/views?granularity=hour")),
    "GET /v1/videos/{videoId}/views/explain": (_viewed, _send("GET /v1/videos/{}/views/explain")),
    "POST /v1/videos/{videoId}/upload": (
        _published,
        _send("POST /v1/videos/{}/upload", {"contentType": "video/mp4", "fileSize": 1}),
    ),
    "GET /v1/videos/{videoId}/upload/{uploadId}": (_uploading(LARGEST_PUT + 1), _send("GET /v1/videos/{}")),
    "POST /v1/videos/{videoId}/upload/{uploadId}/complete": (_uploading(LARGEST_PUT + 1), _complete),
    "DELETE /v1/videos/{videoId}/upload/{uploadId}": (_uploading(LARGEST_PUT + 1), _send("DELETE /v1/videos/{}")),
    "S3 notifies: arrivals": (_uploading(1), _arrive),
    "GET /v1/videos/{videoId}/jobs": (_with_film, _send("GET /v1/videos/{}/jobs")),
    "GET /v1/videos/{videoId}/why-not-ready": (_with_film, _send("GET /v1/videos/{}/why-not-ready")),
    "GET /v1/videos/{videoId}/playback": (_with_film, _send("GET /v1/videos/{}/playback")),
    "POST /v1/videos/{videoId}/jobs/{kind}/retry": (_with_failed_poster, _send("POST /v1/videos/{}/jobs/poster/retry")),
    "POST /v1/videos/{videoId}/thumbnail": (_with_film, _send("POST /v1/videos/{}/thumbnail", {"position": 1000})),
    "PUT /v1/videos/{videoId}/renditions/{name} (running)": (_with_film, _report(state="running")),
    "PUT /v1/videos/{videoId}/renditions/{name} (done)": (_with_film, _report(state="done")),
    "every minute: the sweeper": (_with_film, _sweep),
    "every five minutes: the rankings": (_ranked, _rank),
    "every hour: the lists by views (a video)": (_with_sort_entries, _move_by_views),
    "every minute: the search index": (_indexed, _index),
    "every minute: the search index (a video)": (_published_with_buckets, _read_film),
    "every minute: the search index (rebuild)": (_published, lambda api, _: _some_videos(api)),
    "GET /v1/search": (_searched, _send("GET /v1/search?limit=10")),
    "GET /v1/search (a new instance)": (_two_indexed, _send("GET /v1/search?limit=10")),
    "GET /v1/search?consistentWith=c": (_with_cursor_of_changes, _send("GET /v1/search?consistentWith={}")),
    "GET /v1/videos/{videoId}/similar": (_searched, _send("GET /v1/videos/{}/similar")),
    "GET /v1/top?window=day": (_ranked, _send("GET /v1/top?window=day")),
    "POST /v1/playlists": (lambda _: "", _send("POST /v1/playlists", {"title": "t"})),
    "GET /v1/playlists?userId=u": (_with_playlist, _send("GET /v1/playlists?userId=alice")),
    "GET /v1/playlists/{playlistId}": (_with_playlist, _send("GET {}")),
    "PATCH /v1/playlists/{playlistId}": (_with_playlist, _send("PATCH {}", {"title": "u"})),
    "DELETE /v1/playlists/{playlistId}": (_with_playlist, _send("DELETE {}")),
    "GET /v1/playlists/{playlistId}/entries": (_with_playlist, _send("GET {}/entries")),
    "POST /v1/playlists/{playlistId}/entries": (_with_playlist, _send("POST {}/entries", {"videoId": FILMS[3]})),
    "PATCH /v1/playlists/{playlistId}/entries/{videoId}": (
        _with_playlist,
        _send(f"PATCH {{}}/entries/{FILMS[2]}", {"after": FILMS[0]}),
    ),
    "DELETE /v1/playlists/{playlistId}/entries/{videoId}": (_with_playlist, _send(f"DELETE {{}}/entries/{FILMS[1]}")),
    "GET /v1/videos/{videoId}/playlists": (_with_playlist, _send(f"GET /v1/videos/{FILMS[0]}/playlists")),
    "GET /v1/videos/{videoId}?region=NZ": (_with_relations, _send("GET /v1/videos/{}?region=NZ")),
    "GET /v1/videos/{videoId}?include=credits,releases,ratings,tags,jobs": (
        _with_relations,
        _send("GET /v1/videos/{}?include=credits,releases,ratings,tags,jobs"),
    ),
    "PUT /v1/videos/{videoId}/credits/{personId}": (_published, _send("PUT /v1/videos/{}/credits/p", CREDIT)),
    "DELETE /v1/videos/{videoId}/credits/{personId}": (_with_relations, _send("DELETE /v1/videos/{}/credits/p")),
    "GET /v1/videos/{videoId}/credits": (_with_relations, _send("GET /v1/videos/{}/credits")),
    "GET /v1/videos/{videoId}/credits/{personId}": (_with_relations, _send("GET /v1/videos/{}/credits/p")),
    "PUT /v1/videos/{videoId}/captions/{language}": (_published_with_buckets, _caption),
    "DELETE /v1/videos/{videoId}/captions/{language}": (_with_captions, _send("DELETE /v1/videos/{}/captions/en")),
    "GET /v1/videos/{videoId}/captions": (_with_captions, _send("GET /v1/videos/{}/captions")),
    "GET /v1/videos/{videoId}/captions/{language}": (_with_captions, _send("GET /v1/videos/{}/captions/en")),
    "PUT /v1/videos/{videoId}/chapters": (_published, _set_chapters),
    "DELETE /v1/videos/{videoId}/chapters": (_with_chapters, _send("DELETE /v1/videos/{}/chapters")),
    "GET /v1/videos/{videoId}/chapters": (_with_chapters, _send("GET /v1/videos/{}/chapters")),
    "GET /v1/people/{personId}/videos?fromYear=1990&toYear=1999": (
        _with_relations,
        _send("GET /v1/people/p/videos?fromYear=1990&toYear=1999"),
    ),
    "PUT /v1/videos/{videoId}/releases/{region}/{language}": (
        _published,
        _send("PUT /v1/videos/{}/releases/NZ/mi", RELEASE),
    ),
    "DELETE /v1/videos/{videoId}/releases/{region}/{language}": (
        _with_relations,
        _send("DELETE /v1/videos/{}/releases/NZ/mi"),
    ),
    "GET /v1/videos/{videoId}/releases/{region}": (_with_relations, _send("GET /v1/videos/{}/releases/NZ")),
    "PUT /v1/videos/{videoId}/rating": (_rated, _send("PUT /v1/videos/{}/rating", {"value": 7})),
    "DELETE /v1/videos/{videoId}/rating": (_rated, _send("DELETE /v1/videos/{}/rating")),
    "GET /v1/videos/{videoId}/rating": (_rated, _send("GET /v1/videos/{}/rating")),
    "GET /v1/tags": (_with_counted_tags, _send("GET /v1/tags")),
    "GET /v1/folders": (_with_counted_folder, _send("GET /v1/folders")),
    "GET /v1/folders/{folder}": (_with_counted_folder, _send("GET /v1/folders/a")),
    "GET /v1/users/{userId}": (_with_counted_tags, _send("GET /v1/users/alice")),
    "GET /v1/operations": (_with_late_webhook, _send("GET /v1/operations", user="admin")),
    "the stream: aggregates": (_published, _settle),
    "the stream: aggregates (entries)": (_hidden_by_a_job, _move_entries),
    "the stream: tallies": (_with_a_view, _tally(views=[[deduplication_key("a view", 1), 1000]])),
    "the stream: tallies (ratings)": (_with_sort_entries, _tally(ratings=[[deduplication_key("bob", 1), RATED]])),
    "the stream: tallies (hours)": (_published, _tally(starts=[[0, "2026-01-31T23", True, {}]])),
    "GET /v1/videos/{videoId}/audit": (_changed, _send("GET /v1/videos/{}/audit")),
    "GET /v1/playlists/{playlistId}/audit": (_with_playlist, _send("GET {}/audit")),
    "GET /v1/videos/{videoId}?version=1": (_changed, _send("GET /v1/videos/{}?version=1")),
    "GET /v1/videos/{videoId}/diff?from=1": (_changed, _send("GET /v1/videos/{}/diff?from=1")),
    "GET /v1/changesets/{changesetId}": (_change_set, _send("GET {}")),
    "POST /v1/videos/{videoId}/revert": (_changed, _send("POST /v1/videos/{}/revert", {"toVersion": 1})),
    "POST /v1/changesets/{changesetId}/revert": (_change_set, _send("POST {}/revert")),
    "POST /v1/changesets/{changesetId}/revert (large)": (_change_set, _revert_as_large),
    "GET /v1/changesets/{changesetId}/reverts/{revertId}": (_run, _send("GET {}")),
    "the queue: reverts": (_run, _work_on_run),
    "POST /v1/folder-moves": (_with_folder, lambda api, _: api.post("/v1/folder-moves", MOVE)),
    "the queue: reverts (a folder)": (_moving, _work_on_run),
    "GET /v1/folder-moves/{moveId}": (_moving, _send("GET {}")),
    "GET /v1/changes": (_with_unread_change, _send("GET /v1/changes", user="admin")),
    "GET /v1/changes?userId=u": (_with_unread_change, _send("GET /v1/changes?userId=alice")),
    "GET /v1/changes?after=now": (_with_unread_change, _send("GET /v1/changes?after=now", user="admin")),
    "the stream: the audit trail": (_with_unread_change, _audit),
    "POST /v1/webhooks": (lambda _: "", _send("POST /v1/webhooks", WEBHOOK)),
    "GET /v1/webhooks": (_with_webhook, _send("GET /v1/webhooks")),
    "GET /v1/webhooks?follows=*": (
        lambda api: str(api.post("/v1/webhooks", WEBHOOK | {"userId": "*"}, user="admin").status),
        _send("GET /v1/webhooks?follows=*", user="admin"),
    ),
    "GET /v1/webhooks/{webhookId}": (_with_webhook, _send("GET {}")),
    "PATCH /v1/webhooks/{webhookId} (description)": (_with_webhook, _send("PATCH {}", {"description": "d"})),
    "PATCH /v1/webhooks/{webhookId}": (_with_webhook, _send("PATCH {}", {"paused": True})),
    "DELETE /v1/webhooks/{webhookId}": (_with_webhook, _send("DELETE {}")),
    "POST /v1/webhooks/{webhookId}/rotate": (_with_webhook, _send("POST {}/rotate")),
    "POST /v1/webhooks/{webhookId}/replay": (_with_webhook, _send("POST {}/replay", {"from": NOW - 60})),
    "POST /v1/webhooks/{webhookId}/test": (_with_webhook, _send("POST {}/test")),
    "GET /v1/webhooks/{webhookId}/deliveries": (_with_deliveries, _send("GET {}/deliveries")),
    "the queue: deliveries (changes)": (_with_changes, _notify_subscribers),
    "the queue: deliveries": (_with_changes, _serve),
    "GET /health": (lambda _: "", _send("GET /health")),
}
"""Setup and call of each access pattern for which `_example` has no suitable setup and call. The keys are the patterns'
requests."""

CALLS: dict[str, tuple[Arrange, Call]] = {
    pattern.request: OWN_CALLS.get(pattern.request) or _example(pattern.request) for pattern in ACCESS_PATTERNS
}
"""Setup and call of each access pattern, by request."""
