"""Uploads: a client sends a source file directly to S3, with presigned URLs that accept only the declared type and
size.

An Upload item stores the type and size that the client declared, and the state:

open -> received            the object is in S3
      |        +-> refused      the object's type or size differs
      +-> aborted               an object that still arrives is ignored

A client can complete and abort an upload concurrently. For a multipart upload, the request that S3 processes first
wins. For a single PUT, which S3 cannot cancel, the first write of the item's state wins.

S3 is called before the item is written. A crash in between can leave a multipart upload without an item. The bucket's
lifecycle rule aborts such an upload. A crash cannot leave an item for an upload that S3 does not have. Only the item
and S3 together show the state of an open upload.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import absent_or_purged
from shared.aws.s3 import InvalidParts, ObjectExists, Objects, UploadMissing, object_uri
from shared.core.caller import Caller, with_request_id
from shared.core.errors import IllegalTransition, NotFound, Unavailable, invalid_field
from shared.core.limits import MAX_PARTS
from shared.processing.daily_quota import DAY, QuotaStore
from shared.schema import SCHEMA_VERSION, TTL_ATTRIBUTE, UPLOAD, VIDEO
from shared.videos.access import require_owned

if TYPE_CHECKING:
    from shared.entities import Upload, Video

LARGEST_PUT = 100 * 1000**2
"""Maximum number of bytes that a client uploads in a single PUT. Larger files are sent in parts, so that a lost
connection costs only one part."""
MIB = 1024**2
SMALLEST_PART = 32 * MIB
PUT_SECONDS = 3600
"""Maximum lifetime of the URL of a single PUT, in seconds. A URL also expires with the credentials that signed it."""
MULTIPART_SECONDS = 6 * 3600
"""Maximum lifetime of the URL of a part, in seconds. A URL also expires with the credentials that signed it."""
UPLOAD_DAYS = 2
"""Number of days that a client has to finish an upload. At the first midnight (UTC) after these days, the bucket's
lifecycle rule removes the sent parts (infra/media_stack.py)."""
RETENTION_SECONDS = 7 * DAY
UPLOAD_ID = r"[0-9a-f]{11}-[0-9a-f]{16}"


def new_upload_id(milliseconds: int) -> str:
    """Return an id that sorts by time. The 11 hexadecimal digits of the time suffice until the year 2527."""
    return f"{milliseconds:011x}-{secrets.token_hex(8)}"


def part_size(file_size: int) -> int:
    """Return the size of a part in bytes. It is a multiple of 1 MiB, and large enough that the URLs of all parts fit
    into one response."""
    least = -(-file_size // MAX_PARTS)
    return max(SMALLEST_PART, -(-least // MIB) * MIB)


@dataclass(frozen=True)
class UploadPart:
    """Part of a multipart upload. `size` is in bytes.

    `etag` is set if S3 has received the part. Otherwise `url` is the presigned URL to which the client sends the part.
    """

    size: int
    url: str | None = None
    etag: str | None = None


@dataclass(frozen=True)
class OpenUpload:
    """Open upload, with presigned URLs for sending the file."""

    upload_id: str
    expires_at: int
    """Time at which the URLs expire, in epoch seconds."""
    put: tuple[str, dict[str, str]] | None
    """URL and headers of a single PUT; `None` for a multipart upload."""
    parts: Sequence[UploadPart] = ()


class UploadStore:
    """Store of Upload items. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def find(self, video_id: str, upload_id: str) -> "Upload | None":
        """Return the item of an upload; `None` if it does not exist. The read is consistent."""
        return cast("Upload | None", self.table.get(UPLOAD.key(videoId=video_id, uploadId=upload_id), consistent=True))

    def set_state(self, item: "Upload", state: str, *, since: str = "open") -> str:
        """Set the state of an upload to `state` if the stored state is `since`. Return the resulting state.

        If the stored state is not `since`, it stays unchanged and is returned.
        """
        write = self.table.update(
            UPLOAD.key(videoId=item["videoId"], uploadId=item["uploadId"]),
            Expression.of("SET #state = :state", state=state),
            condition=Expression.of("#state = :since", since=since),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            return str(failure.item["state"]) if failure.item else "aborted"
        return state

    def create(self, item: "Upload", now: int) -> None:
        """Store a new upload; raise Unavailable if this fails. If an item with this id exists, an earlier attempt has
        stored it."""
        try:
            self.table.write(self.table.put(item, condition=absent_or_purged(now)))
        except ConditionFailed as failure:
            # The id is random, so only an earlier attempt, whose response was lost, can have written an existing item.
            if failure.item is None:
                raise Unavailable from failure


class UploadService:
    """Operations on uploads, in both the table and the bucket. Methods raise the errors of shared.core.errors."""

    def __init__(self, store: UploadStore, objects: Objects, bucket: str, quota: QuotaStore, jobs: int) -> None:
        """Create the service. `jobs` is the maximum number of jobs that one upload can start."""
        self.store = store
        self.objects = objects
        self.bucket = bucket
        self.quota = quota
        self.jobs = jobs

    def begin(self, video_id: str, content_type: str, size: int, caller: Caller, milliseconds: int) -> OpenUpload:
        """Begin an upload for a video that the caller owns, and charge the owner's daily job quota.

        `size` is in bytes. `milliseconds` is the current time since the epoch.
        """
        now = milliseconds // 1000
        video = self._live_video(video_id, caller, now)
        self.quota.reserve(video["userId"], self.jobs, now)
        upload_id = new_upload_id(milliseconds)
        uri = object_uri(self.bucket, f"{video_id}/{upload_id}")
        upload = {
            **UPLOAD.key(videoId=video_id, uploadId=upload_id),
            "videoId": video_id,
            "uploadId": upload_id,
            "uri": uri,
            "contentType": content_type,
            "fileSize": size,
            "state": "open",
            "requestedBy": caller.subject,
            "requestedAt": now,
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: now + RETENTION_SECONDS,
        }
        # The S3 notification has no request id, so `arrivals` reads the id from this item.
        item = with_request_id(cast("Upload", upload), caller.correlation_id)
        if size <= LARGEST_PUT:
            self.store.create(item, now)
            return self._presign(item, now)
        multipart_id = self.objects.start_multipart(uri, content_type)
        item = item | {"multipartId": multipart_id, "partSize": part_size(size)}
        self.store.create(item, now)
        return self._presign(item, now)

    def read(self, video_id: str, upload_id: str, caller: Caller, now: int) -> "tuple[Upload, OpenUpload | None]":
        """Return the upload's item with its state at `now`. For an open upload, also return new URLs for the missing
        parts.

        Writes nothing and charges no quota. The returned state is `replaced`, which is never stored, if a later upload
        has replaced the file.
        """
        video = self._live_video(video_id, caller, now)
        item = self._upload(video_id, upload_id)
        state, sent = self._progress(item, video.get("source", {}).get("uploadId", ""), now)
        return item | {"state": state}, self._presign(item, now, sent) if state == "open" else None

    def complete(self, video_id: str, upload_id: str, etags: Sequence[str], caller: Caller, now: int) -> None:
        """Complete a multipart upload. `etags` are the ETags of all parts, in order. Idempotent.

        Raises IllegalTransition for a single PUT, and if the upload was aborted. Raises InvalidContent with the pointer
        `/parts` if the ETags do not match the parts that S3 has.
        """
        self._live_video(video_id, caller, now)
        item = self._upload(video_id, upload_id)
        if "multipartId" not in item:
            raise IllegalTransition("The upload is a single PUT, which is complete once S3 accepts it.")
        if item["state"] == "aborted":
            raise IllegalTransition("The upload was aborted. Begin another upload.")
        if item["state"] != "open":
            return
        count = -(-item["fileSize"] // item["partSize"])
        if len(etags) != count:
            raise invalid_field("/parts", f"must have {count} elements, one for each part, not {len(etags)}")
        try:
            self.objects.complete_multipart(item["uri"], item["multipartId"], etags, item["fileSize"])
        except ObjectExists:
            pass  # the key belongs to this upload only, so an earlier call completed the upload
        except UploadMissing as error:
            if not self.objects.exists(item["uri"]):
                raise IllegalTransition("The upload was aborted. Begin another upload.") from error
        except InvalidParts as error:
            raise invalid_field(
                "/parts", "must have the ETags that S3 returned. Check them, or send the parts again"
            ) from error
        if self.store.set_state(item, "received") == "aborted":
            raise IllegalTransition("The upload was aborted. Begin another upload.")

    def abort(self, video_id: str, upload_id: str, caller: Caller, now: int) -> None:
        """Abort an upload and discard the parts that were sent. Idempotent. Raises IllegalTransition if the upload is
        complete."""
        video = self._video(video_id, caller, now)
        item = self._upload(video_id, upload_id)
        if item["state"] in ("received", "refused") or video.get("source", {}).get("uploadId") == upload_id:
            raise _complete()
        if "multipartId" in item:
            try:
                self.objects.abort_multipart(item["uri"], item["multipartId"])
            except UploadMissing as error:
                # If the object exists, an earlier call completed the upload and crashed; otherwise the upload was
                # aborted.
                if item["state"] == "open" and self.objects.exists(item["uri"]):
                    self.store.set_state(item, "received")
                    raise _complete() from error
        if item["state"] == "open" and self.store.set_state(item, "aborted") != "aborted":
            raise _complete()

    def _progress(self, item: "Upload", arrived: str, now: int) -> tuple[str, Mapping[int, tuple[int, str]]]:
        """Return the state of an upload according to the item and S3. Also return the parts that S3 has: size and ETag
        by part number.

        `arrived` is the upload id of the video's current source file.
        """
        if item["state"] in ("open", "received") and arrived > item["uploadId"]:
            return "replaced", {}
        if item["state"] != "open":
            return item["state"], {}
        in_time = now < _expires_at(item)
        if in_time and "multipartId" in item:
            try:
                return "open", self.objects.list_parts(item["uri"], item["multipartId"])
            except UploadMissing:
                in_time = False
        # The object may exist although no notification has been handled yet.
        if self.objects.exists(item["uri"]):
            return "received", {}
        return ("open" if in_time else "aborted"), {}

    def _presign(
        self, item: "Upload", now: int, sent: Mapping[int, tuple[int, str]] = MappingProxyType({})
    ) -> OpenUpload:
        """Return an upload with presigned URLs for the missing parts.

        `sent` maps the number of each part that S3 has to its size and ETag.
        """
        uri, size, in_parts = item["uri"], item["fileSize"], "multipartId" in item
        ends = min(now + (MULTIPART_SECONDS if in_parts else PUT_SECONDS), _expires_at(item))
        if not in_parts:
            put = self.objects.presign_put(uri, item["contentType"], size, ends - now)
            return OpenUpload(item["uploadId"], ends, put)

        def part(number: int, length: int) -> UploadPart:
            sent_length, etag = sent.get(number, (None, None))
            if sent_length == length:
                return UploadPart(length, etag=etag)
            return UploadPart(
                length, url=self.objects.presign_part(uri, item["multipartId"], number, length, ends - now)
            )

        whole = item["partSize"]
        sizes = [min(whole, size - start) for start in range(0, size, whole)]
        return OpenUpload(item["uploadId"], ends, None, [part(*numbered) for numbered in enumerate(sizes, 1)])

    def _live_video(self, video_id: str, caller: Caller, now: int) -> "Video":
        video = self._video(video_id, caller, now)
        if video["status"] == "deleted":
            raise IllegalTransition.deleted()
        return video

    def _video(self, video_id: str, caller: Caller, now: int) -> "Video":
        return require_owned(self.store.table.get(VIDEO.key(videoId=video_id), consistent=True), caller, now)

    def _upload(self, video_id: str, upload_id: str) -> "Upload":
        item = self.store.find(video_id, upload_id)
        if item is None:
            raise NotFound.of("upload")
        return item


def _expires_at(item: "Upload") -> int:
    """Return the deadline of an upload in epoch seconds. All URLs expire before the deadline.

    The deadline is the first midnight (UTC) at which the upload is at least UPLOAD_DAYS days old. The lifecycle rule
    then removes the parts.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html
    """
    return -(-(int(item["requestedAt"]) + UPLOAD_DAYS * DAY) // DAY) * DAY


def _complete() -> IllegalTransition:
    return IllegalTransition("The upload is complete. Begin another upload to replace it.")
