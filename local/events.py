"""`python -m local.events`: writes an example of each event that invokes a function to `events/`.

The examples have the formats of API Gateway (payload 2.0), DynamoDB Streams, SQS, S3 and EventBridge, with the sample
data of `local/example_data.py`. `--check` only reports whether the files are up to date.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from local import ROOT, example_data
from local.http_events import ACCOUNT, DOMAIN, REGION, Event, http_event
from local.stream_records import EXPIRY, stream_record
from shared.aws.sqs import FIFO
from shared.background.ledger import deduplication_key
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.periods import HOUR_SECONDS, hour_of
from shared.entities import Video
from shared.history.revert_runs import COUNTS, DAYS_KEPT, RUNNING
from shared.job_kinds import rendition_kind
from shared.processing.desired_jobs import input_hash
from shared.processing.messages import (
    aggregates_message,
    changed_message,
    deliver_message,
    job_message,
    purge_message,
    purge_playlist_message,
    revert_message,
    tally_message,
)
from shared.relations.ratings import TOTALS
from shared.routes import DEFAULT_FUNCTION, ROUTES, Route
from shared.schema import PLAYLIST, RATING, REVERT, SCHEMA_VERSION, VIEW_COUNTER, VIEWER, lane_of, playlists_relation
from shared.videos.counters import SUMS
from shared.videos.video import apply_patch, attach_source, mark_deleted
from shared.web.requests import JSON

EVENTS = ROOT / "events"
NONE_FAILED: Mapping[str, Any] = {"batchItemFailures": []}


@dataclass(frozen=True)
class EventExample:
    """Example event of one function, and the expected result with the sample data."""

    function: str
    """Name of the function's folder in `functions/`."""
    name: str
    event: Event
    answers: int | Mapping[str, Any]
    """Expected result: an HTTP status, or the return value of a function that serves no HTTP requests."""

    @property
    def path(self) -> Path:
        """Path of the event's file in the checkout."""
        return EVENTS / self.function / f"{self.name}.json"

    @property
    def expected(self) -> str:
        """Expected result as a short text, for docs/sam-local-invoke.md."""
        if isinstance(self.answers, int):
            return f"{self.answers} {HTTPStatus(self.answers).phrase}"
        return json.dumps(self.answers)


def examples() -> list[EventExample]:
    """Return all examples, sorted by function."""
    examples = [*_http(), *_stream(), *_queues(), *_schedules()]
    return sorted(examples, key=lambda example: example.function)


def text(example: EventExample) -> str:
    """Return the content of the event's file."""
    return json.dumps(example.event, indent=2, ensure_ascii=False) + "\n"


# --- HTTP ---------------------------------------------------------------------------------------------------------


def _http() -> Iterator[EventExample]:
    """Yield at least one request per route, then requests that the service rejects, and a request without a route."""
    video, playlist = {"videoId": example_data.HARBOUR}, {"playlistId": example_data.EVENING}
    credit = {"roles": [{"category": "director"}], "ordering": 2, "name": "Grace Field"}
    titles = {"titles": [{"title": "Ein Tag am Hafen", "types": ["imdbDisplay"]}]}
    key = {"Idempotency-Key": "0b0f4d5e-world"}
    failed, _ = example_data.failed_video()
    rendition = example_data.job(
        example_data.filmed(example_data.PROBED, is_probed=True), rendition_kind(example_data.RENDITION), "queued"
    )

    yield _call("createVideo", 201, body={"title": "Low tide", "tags": ["tide"], "category": "world"}, headers=key)
    yield _call("createVideo", 422, "invalid", body={"title": "", "duration": "long", "rating": 5})
    yield _call("listVideos", 200, query="category=world&from=2025-06-01T00%3A00%3A00Z&limit=2&fields=videoId,title")
    yield _call("listVideos", 200, "by-tag", query="tag=harbour&limit=5")
    yield _call("listVideos", 400, "unserved", query="title=Mason")
    yield _call("listVideos", 400, "parameter-twice", query="limit=5&limit=10")
    yield _call(
        "batchGetVideos", 200, body={"videoIds": [example_data.HARBOUR, example_data.REGATTA, example_data.ABSENT]}
    )
    operations = [
        {"op": "create", "video": {"title": "High tide"}},
        {"op": "patch", "videoId": example_data.HARBOUR, "patch": {"description": "From the pier."}},
    ]
    yield _call("batchVideos", 200, body={"operations": operations}, query="dryRun=false", headers=key)
    yield _call("getVideo", 200, params=video)
    yield _call("getVideo", 200, "included", params=video, query="include=credits,ratings,tags&region=NZ")
    yield _call("getVideo", 404, "absent", params={"videoId": example_data.ABSENT})
    bob = f"userId={example_data.BOB.subject}"
    yield _call("getVideoBySlug", 200, params={"slug": example_data.RESERVED}, query=bob)
    by_external_id = {"externalId": example_data.RESERVED}
    yield _call("getVideoByExternalId", 200, params=by_external_id, caller=example_data.BOB)
    yield _call("getVideoByExternalId", 403, "of-another", params=by_external_id, query=bob)
    yield _call("listEpisodes", 200, params=video, query="season=1")
    yield _call("patchVideo", 200, params=video, body={"description": "From the pier.", "metadata": {"camera": "one"}})
    yield _call("patchVideo", 412, "outdated", params=video, body={"title": "Too late"}, headers={"If-Match": '"999"'})
    yield _call("patchVideo", 403, "of-another", params={"videoId": example_data.REGATTA}, body={"title": "Mine"})
    yield _call("deleteVideo", 204, params={"videoId": example_data.UNWANTED})
    yield _call("restoreVideo", 200, params={"videoId": example_data.DELETED})

    yield _call("countView", 200, params=video, caller=example_data.BOB)
    yield _call("countView", 403, "without-scope", params=video, caller=example_data.TRANSCODER)
    viewed = {"viewerId": "tv-7f3a", "watchedMs": 61_000}
    yield _call("countView", 200, "of-a-viewer", params=video, body=viewed, caller=example_data.BOB)
    queue = [
        {"id": "a1", "videoId": example_data.HARBOUR, "at": example_data.THEN, **viewed},
        {"id": "a2", "videoId": example_data.ABSENT, "at": example_data.THEN},
    ]
    yield _call("countViews", 200, body={"views": queue}, caller=example_data.BOB)
    yield _call("getViews", 200, params=video, query="granularity=day&tz=Europe%2FBerlin")
    yield _call("explainViews", 200, params=video)

    yield _call(
        "createUpload",
        201,
        params={"videoId": example_data.AWAITED},
        body={"contentType": "video/mp4", "fileSize": len(example_data.film())},
    )
    yield _call("getUpload", 200, params={"videoId": example_data.AWAITED, "uploadId": example_data.upload_id(3)})
    yield _call(
        "completeUpload",
        200,
        params={"videoId": example_data.AWAITED, "uploadId": example_data.upload_id(3)},
        body={"parts": [{"partNumber": 1, "etag": f'"{example_data.etag()}"'}]},
    )
    yield _call("abortUpload", 204, params={"videoId": example_data.AWAITED, "uploadId": example_data.upload_id(2)})

    yield _call("chooseThumbnail", 202, params={"videoId": example_data.FAILED}, body={"position": 7500})
    yield _call(
        "reportRendition",
        200,
        params={"videoId": example_data.PROBED, "name": example_data.RENDITION},
        body={
            "inputHash": rendition["inputHash"],
            "attempt": example_data.LAST_TRY,
            "state": "running",
            "progress": 40,
            "worker": "one",
        },
        caller=example_data.TRANSCODER,
    )
    yield _call("listJobs", 200, params={"videoId": example_data.PROBED})
    yield _call("retryJob", 202, params={"videoId": failed["videoId"], "kind": rendition_kind(example_data.RENDITION)})
    yield _call("whyNotReady", 200, params={"videoId": example_data.AWAITED})
    yield _call("getPlayback", 200, params={"videoId": example_data.PROBED})
    yield _call("getPlayback", 409, "nothing-to-play", params=video, caller=example_data.BOB)

    person = video | {"personId": example_data.PERSON}
    yield _call("listCredits", 200, params=video, query="limit=10")
    yield _call("getCredit", 200, params=person, caller=example_data.BOB)
    yield _call("putCredit", 201, params=video | {"personId": "nm0000003"}, body=credit)
    yield _call("deleteCredit", 204, params=video | {"personId": "nm0000002"})
    yield _call("listCaptions", 200, params=video, query="limit=10")
    yield _call("getCaptions", 304, params=video | {"language": "en"}, headers={"If-None-Match": "*"})
    mistaken = "WEBVTT\n\n00:00:03.500 --> 00:00:01.000\nThe tide is out.\n"
    yield _call(
        "putCaptions", 422, params=video | {"language": "mi"}, body=mistaken, headers={"Content-Type": "text/vtt"}
    )
    yield _call("deleteCaptions", 204, params=video | {"language": "de"})
    yield _call("getChapters", 200, params=video, caller=example_data.BOB)
    yield _call("putChapters", 200, params=video, body={"chapters": [{"start": 0, "title": "The whole day"}]})
    yield _call("deleteChapters", 204, params={"videoId": example_data.AWAITED})
    yield _call("listPersonVideos", 200, params={"personId": example_data.PERSON}, query="fromYear=2020&toYear=2029")
    yield _call("listReleases", 200, params=video)
    yield _call("listRegionReleases", 200, params=video | {"region": "NZ"})
    yield _call("getRelease", 200, params=video | {"region": "NZ", "language": "mi"})
    yield _call("putRegionRelease", 201, params=video | {"region": "DE"}, body=titles)
    yield _call("putRelease", 201, params=video | {"region": "CH", "language": "de-CH"}, body=titles)
    yield _call("deleteRegionRelease", 204, params=video | {"region": "AU"})
    yield _call("deleteRelease", 204, params=video | {"region": "CA", "language": "fr-CA"})

    yield _call("getRating", 200, params=video)
    yield _call("putRating", 200, params=video, body={"value": 9}, caller=example_data.BOB)
    yield _call("deleteRating", 204, params={"videoId": example_data.AWAITED})

    yield _call("searchVideos", 200, query="q=harbor&facets=category,tag&limit=5")
    yield _call("searchVideos", 400, "no-words", query="q=%21%3F")
    yield _call("similarVideos", 200, params=video, query="limit=5")

    yield _call("listFolders", 200, query="limit=10")
    yield _call("getFolder", 200, params={"folder": "harbour/2025"})
    yield _call("getFolder", 403, "of-another", params={"folder": "harbour"}, query=bob)
    yield _call("listTags", 200, query="limit=10")
    yield _call("listTop", 200, query="window=week&category=world&limit=10&sort=-rise")
    yield _call("getUser", 200, params={"userId": "alice"})
    yield _call("getUser", 403, "of-another", params={"userId": "bob"})
    yield _call("getOperations", 200, caller=example_data.ADMINISTRATOR)

    question = {"question": "top-editors"}
    yield _call("listQuestions", 200, caller=example_data.ADMINISTRATOR)
    days = "from=2025-06-01&to=2025-06-30"
    yield _call("runQuestion", 202, params=question, query=days, caller=example_data.ADMINISTRATOR)
    absent = question | {"runId": example_data.ABSENT}
    yield _call("getQuestionRun", 404, params=absent, caller=example_data.ADMINISTRATOR)

    yield _call("createPlaylist", 201, body={"title": "Boats", "visibility": "private"}, headers=key)
    yield _call("listPlaylists", 200, query="userId=alice&order=asc", caller=example_data.BOB)
    yield _call("getPlaylist", 200, params=playlist, caller=example_data.BOB)
    yield _call("patchPlaylist", 200, params=playlist, body={"description": "With tea."})
    yield _call("deletePlaylist", 204, params={"playlistId": example_data.MORNING})
    yield _call("listEntries", 200, params=playlist, caller=example_data.BOB)
    yield _call("appendEntry", 201, params=playlist, body={"videoId": example_data.AWAITED})
    yield _call("moveEntry", 200, params=playlist | {"videoId": example_data.REGATTA}, body={"after": None})
    yield _call("removeEntry", 204, params=playlist | {"videoId": example_data.UNWANTED})
    yield _call("listVideoPlaylists", 200, params=video)

    yield _call("listAudit", 200, params=video, query="order=asc&limit=5")
    yield _call(
        "listAudit",
        200,
        "of-removed",
        params={"videoId": example_data.GONE},
        query="order=asc&limit=2",
        caller=example_data.ADMINISTRATOR,
    )
    yield _call("listPlaylistAudit", 200, params=playlist, query="order=asc&limit=5")
    yield _call("getDiff", 404, "of-no-version", params=video, query="from=999")
    yield _call("getVideo", 404, "of-no-version", params=video, query="version=999")
    yield _call("getVideo", 400, "as-it-will-be", params=video, query="asOf=9999-12-31T23:59:59Z")

    # Uses a video that no event changes, so that the version is the same in any order of events.
    regatta = {"videoId": example_data.REGATTA}
    yield _call("getVideo", 200, "of-a-version", params=regatta, query="version=1", caller=example_data.BOB)
    yield _call("getDiff", 200, params=regatta, query="from=1", caller=example_data.BOB)
    wanted = {"toVersion": 1, "fields": ["/title"]}
    yield _call("revertVideo", 200, params=regatta, query="dryRun=true", body=wanted, caller=example_data.BOB)
    yield _call("revertVideo", 404, "of-an-absent-video", params={"videoId": example_data.ABSENT}, body=wanted)
    changeset = {"changesetId": "no-such-request"}
    yield _call("getChangeset", 404, "absent", params=changeset, query="limit=10")
    yield _call("revertChangeset", 404, "absent", params=changeset, query="dryRun=true", body={"force": ["/title"]})
    yield _call("moveFolder", 404, "absent", body={"folder": "no-such-folder", "to": "archive"})
    yield _call("getFolderMove", 404, "absent", params={"moveId": "no-such-move"})
    yield _call("getRevert", 404, "absent", params=changeset | {"revertId": "no-such-run"})

    yield _call("listChanges", 200, "from-now-on", query="userId=alice&types=video.*&after=now&limit=10")
    yield _call("listChanges", 403, "of-everybody", query="after=now")
    hook, receiver = {"webhookId": example_data.HOOK}, {"url": "https://search.example/changes", "types": ["video.*"]}
    yield _call("createWebhook", 201, body=receiver | {"paused": True}, headers=key)
    yield _call("createWebhook", 422, "within-the-network", body={"url": "https://192.0.2.10/changes"})
    yield _call("listWebhooks", 200)
    yield _call("getWebhook", 200, params=hook)
    yield _call("getWebhook", 404, "of-another", params=hook, caller=example_data.BOB)
    yield _call("patchWebhook", 200, params=hook, body={"description": "For the search engine"})
    yield _call("deleteWebhook", 204, params={"webhookId": example_data.UNWANTED_HOOK})
    yield _call("rotateSecret", 200, params=hook)
    yield _call("replayWebhook", 422, "too-far-back", params=hook, body={"from": "2020-01-31T12:00:00Z"})
    yield _call("testWebhook", 200, params=hook)
    yield _call("listDeliveries", 200, params=hook, query="limit=10")

    yield _call("getHealth", 200)
    yield _call("getOpenApi", 200)
    yield _call("getDocs", 200, cookies=["theme=dark", "consent=none"])
    yield _call("getDocsAsset", 200, params={"asset": "start.js"})
    yield EventExample(DEFAULT_FUNCTION, "default-not-found", _request("GET", "/v1/nothing", None), 404)
    yield EventExample(DEFAULT_FUNCTION, "default-method-not-allowed", _request("DELETE", "/v1/videos", None), 405)

    yield EventExample("console", "get-console", _request("GET", "/console", None, key="GET /console"), 301)
    for name, file, status in (
        ("get-console-file", "index.html", 200),
        ("get-console-file-configuration", "config.json", 200),
        ("get-console-file-absent", "absent.js", 404),
    ):
        event = _request("GET", f"/console/{file}", None, key="GET /console/{file+}", params={"file": file})
        yield EventExample("console", name, event, status)


def _call(
    operation: str,
    status: int,
    case: str = "",
    *,
    params: Mapping[str, str] | None = None,
    caller: Caller = example_data.ALICE,
    **request: Any,
) -> EventExample:
    """Return an example request for an operation. `case` distinguishes several examples for the same operation."""
    (route,) = (candidate for candidate in ROUTES if candidate.operation == operation)
    path = route.path.format(**params or {})
    event = _request(route.method, path, route, params=params, caller=caller, **request)
    name = re.sub(r"(?<=[a-z])[A-Z]", lambda capital: f"-{capital[0]}", operation).lower()
    return EventExample(route.function, f"{name}-{case}" if case else name, event, status)


def _request(
    method: str,
    path: str,
    route: Route | None,
    *,
    params: Mapping[str, str] | None = None,
    query: str = "",
    body: Mapping[str, Any] | str | None = None,
    headers: Mapping[str, str] | None = None,
    cookies: Sequence[str] = (),
    caller: Caller = example_data.ALICE,
    key: str = "$default",
) -> Event:
    """Return an HTTP event. If `route` is `None`, because no operation of the API matches the request, `key` is the
    route key.

    A patch has the content type `application/json`, because API Gateway encodes `application/merge-patch+json` in
    base64, which people cannot edit.
    """
    content = body if body is None or isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    sent = {
        "accept": "*/*",
        # A video's response includes its title in the caller's region.
        "accept-language": "en-NZ,en;q=0.8",
        "content-length": str(len((content or "").encode())),
        "host": DOMAIN,
        "user-agent": "curl/8.7.1",
        "x-amzn-trace-id": "Root=1-684ee0d0-5f0c4d3a1b2c3d4e5f607182",
        "x-forwarded-for": "192.0.2.10",
        "x-forwarded-port": "443",
        "x-forwarded-proto": "https",
        **{name.lower(): value for name, value in (headers or {}).items()},
    }
    with_token = route is not None and route.scope is not None
    if with_token:
        sent["authorization"] = "Bearer <the gateway has checked it>"
    if content is not None and not isinstance(body, str):
        sent["content-type"] = JSON
    return http_event(
        method,
        path,
        route,
        key=key,
        params=params,
        query=query,
        body=content,
        headers=dict(sorted(sent.items())),
        cookies=cookies,
        claims=_claims(caller) if with_token else None,
        request_id=example_data.REQUEST,
        at=int(example_data.THEN),
    )


def _claims(caller: Caller) -> dict[str, str]:
    """Return the claims of a Cognito access token as API Gateway passes them to functions: all values are text."""
    return {
        "auth_time": str(example_data.THEN - 60),
        "client_id": "4p2exampleclient6d0",
        "exp": str(example_data.THEN + 3540),
        "iat": str(example_data.THEN - 60),
        "iss": f"https://cognito-idp.{REGION}.amazonaws.com/{REGION}_Example01",
        "jti": "6f1c0c7e-0000-4000-8000-0000000000a1",
        "origin_jti": "6f1c0c7e-0000-4000-8000-0000000000a0",
        "scope": " ".join(sorted(caller.scopes)),
        "sub": caller.subject,
        "token_use": "access",
        "username": caller.subject,
        "version": "2",
    }


# --- The table's stream -------------------------------------------------------------------------------------------


def _stream() -> Iterator[EventExample]:
    """Yield batches of the table's stream for its two consumers."""
    harbour = example_data.harbour()
    edited = apply_patch(harbour, {"title": "Two days at the harbour", "tags": ["harbour"]}, example_data.THEN)
    edited = example_data.written(edited, example_data.ALICE, version=2)
    trashed = example_data.written(mark_deleted(edited, example_data.THEN), example_data.ALICE, version=3)
    awaited = example_data.video(example_data.AWAITED, title="Bikes", visibility="private", status="uploaded")
    taken_in = attach_source(awaited, example_data.source(example_data.AWAITED))
    taken_in = example_data.written(taken_in, Caller.job("arrivals").acting_for(example_data.REQUEST), version=2)
    gone = example_data.video(example_data.GONE, title="Old news", status="failed")
    # The message of this job has no effect, because no video requires the job any more.
    _, (done, *_, failed) = example_data.failed_video()
    probed = example_data.filmed(example_data.FAILED, is_probed=True)
    queued = example_data.job(probed, "probe", "queued")
    transcode = example_data.job(probed, rendition_kind(example_data.RENDITION), "queued")
    withdrawn = example_data.job(probed, "storyboard", "withdrawn")

    created_record = _record(1, None, harbour)
    edited_record = _record(2, harbour, edited)
    deleted_record = _record(3, edited, trashed)
    arrived_record = _record(4, awaited, taken_in)
    queued_record = _record(5, None, queued)
    transcode_record = _record(6, None, transcode)
    done_record = _record(7, queued | {"state": "running"}, done)
    failed_record = _record(8, transcode | {"state": "running"}, failed)
    withdrawn_record = _record(9, example_data.job(probed, "storyboard", "queued"), withdrawn)
    removed_record = _record(10, gone, None)
    expired_record = _record(11, gone, None, expired=True)
    playlist_record = _record(12, _lost_playlist(), None)
    run_record = _record(19, None, _run())
    counted = _counted_records()
    credit = example_data.credit(example_data.HARBOUR) | {
        "writeId": example_data.write_id(example_data.PERSON),
        "updatedFor": example_data.REQUEST,
    }
    playlist = _lost_playlist()
    credited_record = _record(16, None, credit)
    taken_out_record = _record(17, credit | {"removing": True, "writeId": example_data.write_id("leaving")}, None)
    moves = [{"videoId": example_data.HARBOUR, "to": {"rank": "V", "addedAt": example_data.THEN}}]
    collected_record = _record(18, playlist, playlist | {"version": 2, "entryCount": 1, "moves": moves})

    of_videos = {
        "video-created": [created_record],
        "video-changed": [edited_record],
        "video-deleted": [deleted_record],
        "film-arrived": [arrived_record],
        "video-removed": [removed_record],
        "video-expired": [expired_record],
        "job-queued": [queued_record],
    }
    to_router = of_videos | {
        "rendition-queued": [transcode_record],
        "playlist-removed": [playlist_record],
        "revert-begun": [run_record],
        "views-and-ratings": counted,
        "several": [created_record, edited_record, queued_record, expired_record, playlist_record],
    }
    to_audit = of_videos | {
        "job-done": [done_record],
        "job-failed": [failed_record],
        "job-withdrawn": [withdrawn_record],
        "credit-put": [credited_record],
        "credit-removed": [taken_out_record],
        "playlist-changed": [collected_record],
        "playlist-removed": [playlist_record],
        "several": [created_record, edited_record, queued_record, done_record, expired_record],
    }
    for function, batches in {"stream_router": to_router, "audit": to_audit}.items():
        for name, records in batches.items():
            yield EventExample(function, name, {"Records": records}, NONE_FAILED)


def _record(
    number: int, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, *, expired: bool = False
) -> Event:
    """Return a stream record. The record is an INSERT if `old` is `None`, and a REMOVE if `new` is `None`."""
    record = stream_record(
        old,
        new,
        sequence=4421584500000000017450439000 + number,
        at=example_data.THEN + number,
        identity=EXPIRY if expired else None,
    )
    table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/VideoMetadata"
    return record | {"eventSourceARN": f"{table}/stream/2025-06-01T00:00:00.000"}


def _counted_records() -> list[Event]:
    """Return three stream records: a viewer's view, a view counter at the start of an hour, and a changed rating."""
    lane, at = lane_of("alice"), example_data.THEN
    viewer = {
        **VIEWER.key(videoId=example_data.HARBOUR, lane=lane, id="alice"),
        "videoId": example_data.HARBOUR,
        "lane": lane,
        "at": at,
    }
    counter = {
        **VIEW_COUNTER.key(videoId=example_data.HARBOUR, shard=0),
        "views": 41,
        "hour": hour_of(at - HOUR_SECONDS),
    }
    rating = {
        **RATING.key(videoId=example_data.HARBOUR, lane=lane, userId="alice"),
        "videoId": example_data.HARBOUR,
        "value": 8,
    }
    return [
        _record(13, None, viewer | {"watched": 30_000, "purgeAt": at + HOUR_SECONDS}),
        _record(14, counter, counter | {"views": 42, "hour": hour_of(at)}),
        _record(15, rating, rating | {"value": 9}),
    ]


def _run() -> Item:
    """Return the item that stores the progress of the revert of a large change set."""
    return {
        **REVERT.key(revertId=example_data.REQUEST),
        "revertId": example_data.REQUEST,
        "changesetId": "import-5d0f7a1e-3c1b-4f7e-9d53-0a9e6a7f2b11",
        "userId": example_data.ADMINISTRATOR.subject,
        "isAdmin": True,
        "dryRun": False,
        "force": [],
        "attended": False,
        "state": RUNNING,
        **dict.fromkeys(COUNTS, 0),
        **dict.fromkeys(("turn", "last", "stalls"), 0),
        "writeId": example_data.write_id("run"),
        "schemaVersion": SCHEMA_VERSION,
        "updatedAt": example_data.THEN,
        "updatedBy": example_data.ADMINISTRATOR.subject,
        "updatedFor": example_data.REQUEST,
        "purgeAt": example_data.THEN + DAYS_KEPT * 86_400,
    }


def _lost_playlist() -> Item:
    return {
        **PLAYLIST.key(playlistId=example_data.LOST),
        "playlistId": example_data.LOST,
        "userId": "alice",
        "title": "Yesterday",
        "visibility": "private",
        "createdAt": example_data.THEN,
        "entryCount": 0,
        "version": 1,
        "schemaVersion": SCHEMA_VERSION,
        "updatedAt": example_data.THEN,
        "updatedBy": "alice",
        "writeId": example_data.write_id(example_data.LOST),
        "rel": playlists_relation("alice"),
        "relShard": 0,
        "relSort": example_data.THEN,
        "relId": example_data.LOST,
    }


# --- Queues and the schedule --------------------------------------------------------------------------------------


def _queues() -> Iterator[EventExample]:
    """Yield at least one event of each queue."""
    media_bucket = "video-metadata-world-media"
    film = example_data.filmed(example_data.ARRIVED, is_probed=False)
    probed = example_data.filmed(example_data.PROBED, is_probed=True)

    def job(of: Video, kind: str) -> dict[str, Any]:
        queued: Any = example_data.job(of, kind, "queued", attempt=example_data.LAST_TRY)
        return job_message(queued, media_bucket)

    notification = _notification(example_data.film_key(example_data.AWAITED))
    test_event = {
        "Service": "Amazon S3",
        "Event": "s3:TestEvent",
        "Time": "2025-06-15T15:06:40.000Z",
        "Bucket": example_data.SOURCES_BUCKET,
        "RequestId": "EXAMPLE0REQUEST0",
        "HostId": "example-host-id",
    }
    outdated = job(probed, "poster") | {"inputHash": input_hash({"source": "another film"})}
    messages: dict[tuple[str, str, str], Sequence[Mapping[str, Any]]] = {
        ("arrivals", "ArrivalsQueue", "film-uploaded"): [notification],
        ("arrivals", "ArrivalsQueue", "test-event"): [test_event],
        ("probe", "ProbeQueue", "film"): [job(film, "probe")],
        ("thumbnails", "ThumbnailsQueue", "poster"): [job(probed, "poster")],
        ("thumbnails", "ThumbnailsQueue", "storyboard"): [job(probed, "storyboard")],
        ("thumbnails", "ThumbnailsQueue", "outdated"): [outdated],
        ("purge", "PurgeQueue", "video"): [purge_message(example_data.GONE)],
        ("purge", "PurgeQueue", "playlist"): [purge_playlist_message(example_data.LOST)],
        ("reverts", "RevertsQueue", "change-set"): [revert_message(example_data.REQUEST)],
        ("deliveries", "DeliveriesQueue", "changed"): [changed_message(["alice", "bob"])],
        # HOOK is paused, so this message has no effect.
        ("deliveries", "DeliveriesQueue", "webhook"): [deliver_message(example_data.HOOK)],
        ("aggregates", "AggregatesQueue", "videos"): [
            aggregates_message(example_data.HARBOUR, entries=True),
            aggregates_message(example_data.REGATTA),
            aggregates_message(example_data.GONE),
        ],
        ("tallies", "TalliesQueue.fifo", "views-and-ratings"): [
            _tallied(example_data.REGATTA),
            _tallied(example_data.GONE),
        ],
    }
    for (function, queue, name), bodies in messages.items():
        yield EventExample(function, name, {"Records": [_message(queue, body) for body in bodies]}, NONE_FAILED)


def _tallied(video_id: str) -> dict[str, Any]:
    """Return the router's message for the records that `_counted_records` returns."""
    sums = dict.fromkeys(SUMS, 0) | {"views": 41}
    return tally_message(
        video_id,
        {
            "views": [[deduplication_key("view", example_data.THEN), 30_000]],
            "starts": [[0, hour_of(example_data.THEN), False, sums]],
            "ratings": [[deduplication_key("rating", example_data.THEN), dict.fromkeys(TOTALS, 0) | {"sum": 1}]],
        },
    )


def _message(queue: str, body: Mapping[str, Any]) -> Event:
    content = json.dumps(body, separators=(",", ":"))
    digest = hashlib.md5(f"{queue}{content}".encode(), usedforsecurity=False).hexdigest()
    message_id = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
    return {
        "messageId": message_id,
        "receiptHandle": f"AQEBexample{digest}==",
        "body": content,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": str(example_data.THEN * 1000),
            "SenderId": "AROAEXAMPLEROLEID:router",
            "ApproximateFirstReceiveTimestamp": str(example_data.THEN * 1000 + 15),
            **({"MessageGroupId": body["videoId"]} if queue.endswith(FIFO) else {}),
        },
        "messageAttributes": {},
        "md5OfBody": hashlib.md5(content.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:VideoMetadata-dev-{queue}",
        "awsRegion": REGION,
    }


def _notification(key: str) -> Event:
    """Return S3's notification of an uploaded source file.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": REGION,
        "eventTime": "2025-06-15T15:06:40.000Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:AROAEXAMPLEROLEID:uploads"},
        "requestParameters": {"sourceIPAddress": "192.0.2.10"},
        "responseElements": {"x-amz-request-id": "EXAMPLE0REQUEST0", "x-amz-id-2": "example-host-id"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "arrivals",
            "bucket": {
                "name": example_data.SOURCES_BUCKET,
                "ownerIdentity": {"principalId": "AEXAMPLEOWNER"},
                "arn": f"arn:aws:s3:::{example_data.SOURCES_BUCKET}",
            },
            "object": {
                "key": key,
                "size": len(example_data.film()),
                "eTag": example_data.etag(),
                "sequencer": "00684EE0D0A1B2C3D4",
            },
        },
    }
    return {"Records": [record]}


def _schedules() -> Iterator[EventExample]:
    """Yield the event of each EventBridge schedule.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-rule-schedule.html
    """
    nothing = dict.fromkeys(("requeued", "resent", "failed", "skipped", "recovered", "scheduled", "due"), 0)
    yield EventExample(
        "sweeper", "every-minute", _scheduled("53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa", "Schedule"), nothing
    )
    event = _scheduled("0d1c2f3e-7a54-4b6b-9a0e-6f1f3f5a2c11", "RankingsSchedule")
    yield EventExample("rankings", "every-five-minutes", event, {})
    event = _scheduled("7b1e0c52-4d1f-4f0e-8b57-2c9a6d3e5f10", "IndexSchedule")
    yield EventExample("indexer", "every-minute", event, {})
    event = _scheduled("3c9f2a71-5be0-4d6c-9a34-8e1d7f20c6b5", "CompactorSchedule")
    yield EventExample("compactor", "every-hour", event, {})


def _scheduled(event_id: str, rule: str) -> Event:
    return {
        "version": "0",
        "id": event_id,
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": "2025-06-15T15:06:00Z",
        "region": REGION,
        "resources": [f"arn:aws:events:{REGION}:{ACCOUNT}:rule/VideoMetadata-dev-Jobs-{rule}"],
        "detail": {},
    }


# --- Files --------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Write the files, and delete outdated ones. With `--check`, only compare them. Returns the exit status."""
    wanted = {example.path: text(example) for example in examples()}
    stale = set(EVENTS.rglob("*.json")) - wanted.keys()
    if arguments == ["--check"]:
        same = all(file.exists() and file.read_text(encoding="utf-8") == content for file, content in wanted.items())
        return int(bool(stale) or not same)
    for file in stale:
        file.unlink()
    for file, content in wanted.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
