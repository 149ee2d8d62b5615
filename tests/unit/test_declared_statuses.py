"""Tests that each operation returns exactly the statuses that the OpenAPI document declares. Requests provoke each
status."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.testbed.athena import FakeAthena
from local.testbed.audited import AuditedService
from local.testbed.background import BackgroundWork
from local.testbed.calls import BODIES, MISSING, PATH_PARAMETERS, QUERIES, path_of, put_examples
from local.testbed.feed_changes import append_changes, change
from local.testbed.harness import SOURCES_BUCKET, Api, make_api, remove_video
from local.testbed.lean_moto import restore_tables
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.caller import Caller
from shared.feed.log import Feed
from shared.history import changeset_reverts
from shared.openapi.document import document
from shared.processing import uploads
from shared.routes import ROUTES, Route
from shared.schema import AUDIT_TABLE_NAME, CHANGESET, VIDEO
from tests.indexed import publish_index

DELETED = "00000000-0000-4000-8000-000000000001"
CREDIT: dict[str, Any] = {"ordering": 1, "roles": [{"category": "actor"}]}
RELEASE: dict[str, Any] = {"titles": [{"title": "t"}]}
CHAPTERS: dict[str, Any] = {"chapters": [{"start": 0, "title": "t"}]}
CAPTIONS: dict[str, Any] = {
    "body": "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n",
    "headers": {"Content-Type": "text/vtt"},
}

WORKER = Caller.job("thumbnails")

Send = Callable[..., int]


def _path(route: Route, video_id: str, **ids: str) -> str:
    return path_of(route, videoId=video_id, **ids)


def _of_any_operation(api: Api, route: Route, video_id: str) -> Iterator[int]:
    """Send requests that are possible for any operation: to existing, deleted and missing videos, and with malformed
    ids."""
    tag = api.get(f"/v1/videos/{video_id}").etag
    to_any_id: list[dict[str, Any]] = [{}, {"json_body": BODIES.get(route.operation), "user": "admin"}, {"user": "bob"}]
    to_the_video: list[dict[str, Any]] = [
        {"body": "x", "user": "admin", "headers": {"Content-Type": "text/plain"}},
        {"body": "x" * 1_100_000, "user": "admin", "headers": {"Content-Type": "application/json"}},
        {"scopes": "other"},
        {"query": "x=1"},
        {"body": "{", "headers": {"Content-Type": "application/json"}},
        {"json_body": {"x": 1}},
        {"json_body": {}, "headers": {"Idempotency-Key": ""}},
        {"json_body": {"title": "t"}},
        {"json_body": {"title": "t", "videoId": video_id}, "user": "admin"},
        {"json_body": {"status": "uploaded"}},
        {"json_body": {"title": "t"}, "headers": {"If-Match": '"99"'}},
        {"headers": {"If-Match": '"99"'}},
        {"headers": {"If-None-Match": tag}},
    ]
    for provocation in to_any_id:
        for path in (video_id, DELETED, MISSING, "no-uuid"):
            yield api.request(route.method, _path(route, path), **provocation).status
    for provocation in to_the_video:
        yield api.request(route.method, _path(route, video_id), **provocation).status


@pytest.fixture(scope="module")
def uploaded(fill_once: Callable[[Callable[[Api], str]], tuple[bytes, str]]) -> tuple[bytes, str]:
    """Return the tables with one of alice's videos, whose source file was probed, and the video's id."""
    return fill_once(lambda api: BackgroundWork(api.table, api.clock).uploaded_film(api))


def _during_faults(
    api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, route: Route, video_id: str
) -> Iterator[int]:
    """Send valid requests while the database is throttled, refuses requests, or has concurrent writers."""
    body, query = BODIES.get(route.operation), QUERIES.get(route.operation, "")
    for error in ("ThrottlingException", "NoSuchThing"):
        api.clock.advance(1)  # expires the values that the last request cached
        with _broken(table, error):
            path = _path(route, MISSING)
            yield api.request(route.method, path, json_body=body, user="admin", query=query).status
    with monkeypatch.context() as patch:
        _conflict(patch, table)
        headers = {"Idempotency-Key": "in-flight"}
        for path in (video_id, DELETED):
            yield api.request(route.method, _path(route, path), json_body=body, headers=headers).status


def _of_sources(api: Api, table: Table, objects: Objects, send: Send) -> Iterator[int]:
    """Provoke the statuses that need a source video, its jobs, or an upload."""
    background = BackgroundWork(table, api.clock)
    video_id = background.uploaded_film(api)
    yield send(video_id, {"position": 1000})
    message = background.message("transcode", "transcode.360p")
    for report in (BODIES["reportRendition"], BODIES["reportRendition"] | {"inputHash": message.inputHash}):
        yield send(video_id, report, user="transcoder", scopes="videos/transcode")
    attempt = background.message("thumbnails", "poster").job_attempt
    background.jobs.fail(attempt, "It broke.", WORKER, int(api.clock()), retry=False)
    yield send(video_id, None)
    yield send(video_id, None, kind="probe")
    for size in (1, 2):
        begun = api.post(f"/v1/videos/{video_id}/upload", {"contentType": "video/mp4", "fileSize": size}).json
        ids = {"uploadId": begun["uploadId"]}
        if "parts" in begun:
            (started,) = objects.client.list_multipart_uploads(Bucket=SOURCES_BUCKET)["Uploads"]
            part = objects.client.upload_part(
                Bucket=SOURCES_BUCKET,
                Key=f"{video_id}/{begun['uploadId']}",
                UploadId=started["UploadId"],
                PartNumber=1,
                Body=b"x" * size,
            )
            parts = {"parts": [{"partNumber": 1, "etag": part["ETag"]}]}
            reply = api.post(f"/v1/videos/{video_id}/upload/{begun['uploadId']}/complete", parts)
            assert reply.status == 200
            yield send(video_id, parts, **ids)
        yield send(video_id, BODIES["completeUpload"], **ids)
    yield send(DELETED, BODIES["createUpload"])
    background.settle()
    storyboard = background.message("thumbnails", "storyboard").job_attempt
    background.jobs.fail(storyboard, "It broke.", WORKER, int(api.clock()), retry=False)
    background.spend_quota("alice")
    yield send(video_id, None, kind="storyboard")
    yield send(video_id, {"position": 2000})
    yield send(video_id, BODIES["createUpload"])


def _of_ratings(api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, route: Route, video_id: str) -> Iterator[int]:
    """Provoke the statuses that need an existing rating and concurrent writers."""
    api.put(f"/v1/videos/{video_id}/rating", {"value": 1})
    with monkeypatch.context() as patch:
        _conflict(patch, table)
        yield api.request(route.method, _path(route, video_id), json_body=BODIES.get(route.operation)).status


def _of_relations(api: Api, route: Route, video_id: str) -> Iterator[int]:
    """Provoke the statuses that need a credit or a release, or their ETags."""
    path = f"/v1/videos/{video_id}"
    credit = api.put(f"{path}/credits/sam", CREDIT).etag
    api.put(f"{path}/releases/NZ", RELEASE)
    tags = f"{credit}, {api.put(f'{path}/releases/NZ/mi', RELEASE).etag}"
    target, body = _path(route, video_id), BODIES.get(route.operation)
    for headers in ({"If-Match": '"99"'}, {"If-None-Match": tags}, {}):
        yield api.request(route.method, target, json_body=body, headers=headers).status


def _of_captions(
    table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch, route: Route, video_id: str
) -> Iterator[int]:
    """Provoke the statuses that need captions or chapters, or their ETags. `putCaptions` also accepts text that is not
    JSON."""
    api = make_api(table, objects=objects)
    path = f"/v1/videos/{video_id}"
    if route.operation == "putCaptions":
        content: dict[str, Any] = CAPTIONS
        yield api.request("PUT", f"{path}/captions/de", **CAPTIONS).status
        yield api.request("PUT", f"{path}/captions/de", **CAPTIONS | {"body": "x"}).status
        yield api.request("PUT", f"{path}/captions/de", **CAPTIONS | {"body": "x" * 1_000_001}).status
        yield api.request("PUT", f"/v1/videos/{MISSING}/captions/de", **CAPTIONS).status
        yield api.request("PUT", f"/v1/videos/{DELETED}/captions/de", **CAPTIONS).status
        yield api.request("PUT", f"{path}/captions/de", **CAPTIONS, user="bob").status
        for error in ("ThrottlingException", "NoSuchThing"):
            with _broken(table, error):
                yield api.request("PUT", f"{path}/captions/de", **CAPTIONS).status
    else:
        content = {"json_body": BODIES.get(route.operation), "headers": {}}
    tags = ", ".join(
        [api.request("PUT", f"{path}/captions/mi", **CAPTIONS).etag, api.put(f"{path}/chapters", CHAPTERS).etag]
    )
    target = _path(route, video_id)
    with monkeypatch.context() as patch:
        _conflict(patch, table)
        yield api.request(route.method, target, **content).status
    for headers in ({"If-Match": '"99"'}, {"If-None-Match": tags}, {}):
        yield api.request(route.method, target, **content | {"headers": content["headers"] | headers}).status


def _of_playlists(
    api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, route: Route, video_id: str
) -> Iterator[int]:
    """Provoke the statuses that need a playlist with two entries."""
    playlist = api.post("/v1/playlists", {"title": "t", "visibility": "public"}).json["playlistId"]
    path = f"/v1/playlists/{playlist}"
    last, new = api.publish()["videoId"], api.publish()["videoId"]
    for listed_id in (video_id, last):
        api.post(f"{path}/entries", {"videoId": listed_id})
    target = _path(route, last, playlistId=playlist)
    body = {"videoId": new} if route.operation == "appendEntry" else BODIES.get(route.operation)
    with monkeypatch.context() as patch:
        _conflict(patch, table)
        yield api.request(route.method, target, json_body=body).status
    tag = api.get(path).etag
    for user, headers in (
        ("bob", {}),
        ("alice", {"If-Match": '"99"'}),
        ("alice", {"If-None-Match": tag}),
        ("alice", {}),
    ):
        yield api.request(route.method, target, json_body=body, user=user, headers=headers).status


def _of_webhooks(api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, route: Route) -> Iterator[int]:
    """Provoke the statuses that need a webhook."""
    webhook = api.post("/v1/webhooks", BODIES["createWebhook"]).json["webhookId"]
    path, body = _path(route, MISSING, webhookId=webhook), BODIES.get(route.operation)
    with monkeypatch.context() as patch:
        _conflict(patch, table)
        yield api.request(route.method, path, json_body=body).status
    tag = api.get(f"/v1/webhooks/{webhook}").etag
    for headers in ({"If-Match": '"99"'}, {"If-None-Match": tag}, {}):
        yield api.request(route.method, path, json_body=body, headers=headers).status


def _of_changes(api: Api, table: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Provoke the statuses that need expired changes, and a cursor whose next change has expired."""
    feed = Feed(Table(AUDIT_TABLE_NAME, table.client), api.clock)
    append_changes(feed, change(1))
    query = f"userId=alice&after={api.get('/v1/changes', query='userId=alice').json['nextCursor']}"
    monkeypatch.setattr("shared.feed.log.LARGEST_TAIL", 1)  # makes each change a separate block
    append_changes(feed, change(2))
    append_changes(feed, change(3))
    api.clock.advance(31 * 86_400)
    yield api.get("/v1/changes", query=query).status


def _of_reverts(api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, send: Send) -> Iterator[int]:
    """Provoke the statuses that need earlier versions: in the trail, not yet in the trail, or no longer in it."""
    past = AuditedService(api)
    past.settle()
    video_id = past.uploaded_film(api)
    for position in (1, 2):
        past.write("POST", f"/v1/videos/{video_id}/thumbnail", {"position": position})
    body = {"toVersion": past.item(video_id)["version"] - 1}
    with monkeypatch.context() as patch:
        _conflict(patch, table)
        yield send(video_id, body)
    past.spend_quota("alice")
    yield send(video_id, body)
    yield send(video_id, {"toVersion": past.item(video_id)["version"]})
    yield api.post(f"/v1/videos/{video_id}/revert", body, headers={"If-Match": '"1"'}).status
    table.delete(VIDEO.key(videoId=video_id))
    past.settle()
    yield send(video_id, body)


def _of_past_versions(api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, route: Route) -> Iterator[int]:
    """Provoke the statuses that need an earlier version of a video, in the trail or not yet in the trail."""
    query = {"getVideo": "version=1", "getDiff": "from=1"}[route.operation]
    past = AuditedService(api)

    def send(video_id: str, user: str = "alice") -> int:
        return api.request("GET", _path(route, video_id), query=query, user=user).status

    video_id = str(api.create("admin", userId="alice")["videoId"])
    api.patch(f"/v1/videos/{video_id}", {"title": "u"})
    yield send(video_id)  # the trail does not contain the version yet
    past.settle()
    yield send(video_id)
    yield send(api.publish()["videoId"], "bob")
    with monkeypatch.context() as patch:
        patch.setattr("shared.history.trail.FARTHEST", 0)
        yield send(video_id)
    remove_video(table, video_id)
    yield send(video_id)
    yield send(MISSING)


def _of_unique_values(api: Api, route: Route) -> Iterator[int]:
    """Find a video by its unique value: with and without a matching ETag, and as another user."""
    video = api.create("alice", externalId=PATH_PARAMETERS["externalId"], slug=PATH_PARAMETERS["slug"])
    for headers in ({}, {"If-None-Match": api.get(f"/v1/videos/{video['videoId']}").headers["etag"]}):
        yield api.get(path_of(route), headers=headers).status
    yield api.get(path_of(route), query="userId=alice", user="bob").status


def _of_changesets(api: Api, monkeypatch: pytest.MonkeyPatch, route: Route) -> Iterator[int]:
    """Provoke the statuses that need a change set (small, large, or not yet in the trail) or a run that reverts one."""
    past = AuditedService(api)
    video_id = past.create()
    changeset_id = str(past.entries(video_id)[0][CHANGESET])

    def status(**ids: str) -> int:
        path = _path(route, video_id, changesetId=changeset_id, **ids)
        return api.request(route.method, path, headers={}).status

    assert api.patch(f"/v1/videos/{video_id}", {"title": "u"}).status == 200
    yield status()
    past.settle()
    yield status()
    yield api.request(route.method, _path(route, video_id, changesetId="~" * 129)).status
    monkeypatch.setattr(changeset_reverts, "MAX_ENTRIES_INLINE", 0)
    past.create()
    run = past.api.post(f"/v1/changesets/{changeset_id}/revert", user="admin")
    yield status()
    if run.status == 202:
        yield api.request(
            route.method, _path(route, video_id, changesetId=changeset_id, revertId=run.json["revertId"]), user="admin"
        ).status


def _of_moves(api: Api, route: Route) -> Iterator[int]:
    """Provoke the statuses that need a folder with a video, or the run that moves it."""
    body = BODIES["moveFolder"]
    api.create(folder=body["folder"])
    move = api.post("/v1/folder-moves", body)
    yield move.status if route.method == "POST" else api.get(f"/v1/folder-moves/{move.json['moveId']}").status
    if route.method == "POST":
        yield api.post("/v1/folder-moves", body | {"userId": "alice"}, user="bob").status
        yield api.post("/v1/folder-moves", body | {"to": body["folder"]}).status


def _of_questions(table: Table, route: Route) -> Iterator[int]:
    """Provoke the statuses that need a run of a question, or errors of Athena."""
    athena = FakeAthena()
    api = make_api(table, athena=athena)
    admin: dict[str, Any] = {"user": "admin", "headers": {"Idempotency-Key": "k"}}
    days = "to=2026-06-30"
    run_id = api.post("/v1/questions/top-editors/runs", query=days, **admin).json["runId"]
    admin["query"] = days if route.method == "POST" else ""
    path = _path(route, "", question="top-editors", runId=run_id)
    yield api.request(route.method, path, **admin).status
    for query in ("to=2026-06-29", "to=2026-06-31"):
        yield api.request(route.method, path, **admin | {"query": query}).status
    yield api.request(route.method, _path(route, "", question="drop-tables", runId=run_id), **admin).status
    asked = "StartQueryExecution" if route.method == "POST" else "GetQueryExecution"
    for operation, code in (
        (asked, "TooManyRequestsException"),
        (asked, "NoSuchThing"),
        ("GetQueryResults", "InvalidRequestException"),
    ):
        athena.errors = {operation: code}
        yield api.request(route.method, path, **admin).status


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_every_declared_status_is_returned_and_no_other(
    api: Api,
    table: Table,
    objects: Objects,
    uploaded: tuple[bytes, str],
    monkeypatch: pytest.MonkeyPatch,
    route: Route,
    tmp_path: Path,
) -> None:
    tables, uploaded_id = uploaded
    restore_tables(tables)
    declared = {
        int(status)
        for status, response in document()["paths"][route.path][route.method.lower()]["responses"].items()
        if int(status) < 400 or "application/problem+json" in response.get("content", {})
    }
    video = api.publish("alice")
    api.publish("alice", videoId=DELETED)
    if route.function == "search":
        publish_index(table, objects, api.clock, tmp_path)
    api.delete(f"/v1/videos/{DELETED}")

    def send(video_id: str, body: Any, user: str = "alice", scopes: str | None = None, **ids: str) -> int:
        path = _path(route, video_id, **ids)
        return api.request(route.method, path, json_body=body, user=user, scopes=scopes).status

    statuses = {
        *_of_any_operation(api, route, video["videoId"]),
        *_during_faults(api, table, monkeypatch, route, uploaded_id),
    }
    if "{asset}" in route.path:
        statuses.add(api.request(route.method, _path(route, "", asset="x.js")).status)
    if route.function == "ratings":
        statuses |= set(_of_ratings(api, table, monkeypatch, route, video["videoId"]))
    if route.function == "relations":
        statuses |= set(_of_relations(api, route, video["videoId"]))
    if route.function == "captions":
        statuses |= set(_of_captions(table, objects, monkeypatch, route, video["videoId"]))
    if route.function == "playlists":
        statuses |= set(_of_playlists(api, table, monkeypatch, route, video["videoId"]))
    if "{webhookId}" in route.path:
        statuses |= set(_of_webhooks(api, table, monkeypatch, route))
    if "{changesetId}" in route.path:
        statuses |= set(_of_changesets(api, monkeypatch, route))
    if "folder-moves" in route.path:
        statuses |= set(_of_moves(api, route))
    if route.operation == "getUser":
        statuses.add(send("", None, user="admin", userId="alice/totals"))
    if route.operation == "getOperations":
        statuses |= {api.get(route.path, user="admin", query=query).status for query in ("", "part=queues")}
    if "/v1/questions" in route.path:
        statuses |= set(_of_questions(table, route))
    if route.operation == "listChanges":
        statuses |= set(_of_changes(api, table, monkeypatch))
    if route.operation == "revertVideo":
        statuses |= set(_of_reverts(api, table, monkeypatch, send))
    if route.path.startswith(("/v1/external-ids", "/v1/slugs")):
        statuses |= set(_of_unique_values(api, route))
    if route.operation in ("getVideo", "getDiff"):
        statuses |= set(_of_past_versions(api, table, monkeypatch, route))
    if route.function in ("jobs", "uploads"):
        monkeypatch.setattr(uploads, "LARGEST_PUT", 1)  # makes an upload of two bytes a multipart upload
        statuses |= set(_of_sources(api, table, objects, send))
    put_examples(api, route.function, videoId=video["videoId"])
    statuses.add(send(video["videoId"], BODIES.get(route.operation)))

    is_static = route.operation in ("getOpenApi", "getDocs", "getDocsAsset", "listQuestions")
    # A static response fails only because of a bug, which no request can provoke.
    assert statuses == declared - ({500} if is_static else set())


def _begin_multipart(api: Api, objects: Objects, video_id: str) -> dict[str, str]:
    """Begin a multipart upload and upload its only part. Return the upload id and the part's ETag."""
    upload_id = api.post(f"/v1/videos/{video_id}/upload", {"contentType": "video/mp4", "fileSize": 2}).json["uploadId"]
    key = f"{video_id}/{upload_id}"
    (started,) = objects.client.list_multipart_uploads(Bucket=SOURCES_BUCKET)["Uploads"]
    part = objects.client.upload_part(
        Bucket=SOURCES_BUCKET, Key=key, UploadId=started["UploadId"], PartNumber=1, Body=b"xx"
    )
    return {"uploadId": upload_id, "etag": part["ETag"]}


@pytest.mark.parametrize("operation", ["createUpload", "completeUpload", "abortUpload", "chooseThumbnail", "retryJob"])
def test_write_contention_is_a_declared_409_with_retry_after(
    api: Api, table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    (route,) = [route for route in ROUTES if route.operation == operation]
    background = BackgroundWork(table, api.clock)
    video_id = background.uploaded_film(api)
    monkeypatch.setattr(uploads, "LARGEST_PUT", 1)  # makes an upload of two bytes a multipart upload
    upload = _begin_multipart(api, objects, video_id)
    background.jobs.fail(
        background.message("thumbnails", "poster").job_attempt, "It broke.", WORKER, int(api.clock()), retry=False
    )
    completion = {"parts": [{"partNumber": 1, "etag": upload["etag"]}]}
    body = completion if operation == "completeUpload" else BODIES.get(operation)
    _conflict(monkeypatch, table)
    path = _path(route, video_id, uploadId=upload["uploadId"])
    reply = api.request(route.method, path, json_body=body, user="admin")
    assert (reply.status, reply.headers["retry-after"]) == (409, "1")
    declared = document()["paths"][route.path][route.method.lower()]["responses"]["409"]
    assert reply.slug == "write-contention"
    assert "write-contention" in declared["content"]["application/problem+json"]["examples"]
    assert "Retry-After" in declared["headers"]


@contextmanager
def _broken(table: Table, code: str) -> Iterator[None]:
    def fail(*_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "Any")

    undo = intercept(table.client, fail)
    try:
        yield
    finally:
        undo()


def _conflict(patch: pytest.MonkeyPatch, table: Table) -> None:
    def fail(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": ""}}, "Any")

    for name in ("put_item", "update_item", "transact_write_items"):
        patch.setattr(table.client, name, fail)
