"""Handler of S3 notifications: compares each uploaded object with the type and size in its Upload item.

A notification only names an object. The outcome depends on the object's current state, which HeadObject returns.
Therefore the outcome does not change if notifications are duplicate, late or reordered.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from aws_lambda_powertools.utilities.data_classes import S3Event

from shared.aws.s3 import ObjectMetadata, Objects, object_uri
from shared.aws.sqs import BadMessage
from shared.core.caller import Caller, request_id_of
from shared.core.errors import NotFound
from shared.core.telemetry import service_logger, use_correlation_id
from shared.processing.uploads import UPLOAD_ID, UploadStore
from shared.videos.store import VideoStore
from shared.videos.video import attach_source, reject_upload

if TYPE_CHECKING:
    from shared.entities import Upload, Video, VideoSource

KEY = re.compile(rf"([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/({UPLOAD_ID})")
CALLER = Caller.job("arrivals")


class Arrivals:
    """Consumer of S3 notifications about uploaded source files.

    It attaches the source file to the video, or records in the video why the service refused the file.
    """

    def __init__(self, uploads: UploadStore, objects: Objects, videos: VideoStore) -> None:
        self.uploads = uploads
        self.objects = objects
        self.videos = videos
        self._logger = service_logger()

    def handle(self, notification: Mapping[str, Any], now: int) -> None:
        """Handle one S3 notification, which may name several objects.

        If an object cannot be handled, the other objects are still handled, and the first error is raised at the end.
        Raises BadMessage, Unavailable and WriteContention.
        """
        failure: Exception | None = None
        for bucket, key in _created(notification):
            try:
                self._object(bucket, key, now)
            except Exception as error:  # raised after the last object, so that the others are still handled
                failure = failure or error
        if failure:
            raise failure

    def _object(self, bucket: str, key: str, now: int) -> None:
        """Handle one object. Log lines and writes contain the id of the HTTP request that began the upload."""
        parts = KEY.fullmatch(key)
        upload = self.uploads.find(*parts.groups()) if parts else None
        with use_correlation_id(request_id_of(upload)):
            try:
                outcome = self._process_upload(upload, object_uri(bucket, key), now)
            except Exception as error:  # logged here because the request's id is known here; raised unchanged
                self._logger.warning("object not processed", extra={"key": key, "cause": repr(error)})
                raise
            self._logger.info("object created", extra={"key": key, "outcome": outcome})

    def _process_upload(self, upload: "Upload | None", uri: str, now: int) -> str:
        """Attach an uploaded object to its video, or refuse it. Returns the outcome as a short text for the log."""
        if upload is None or upload["uri"] != uri:
            return "ignored: unknown upload"
        if upload["state"] in ("aborted", "refused"):
            return f"ignored: upload is {upload['state']}"
        facts = self.objects.head(upload["uri"])
        if facts is None:
            return "ignored: object deleted"
        if upload["state"] == "open" and self.uploads.set_state(upload, "received") != "received":
            return "ignored: upload aborted"
        reason = _mismatch(upload, facts)
        if reason is None:
            source = _source(upload, facts, now)
            return self._change(upload, now, lambda item: attach_source(item, source)) or "attached"
        outcome = self._change(upload, now, lambda item: reject_upload(item, upload["uploadId"], reason, now))
        # The state `refused` is written last, so that a redelivery after a crash repeats all steps.
        self.uploads.set_state(upload, "refused", since="received")
        return outcome or f"refused: {reason}"

    def _change(self, upload: "Upload", now: int, edit: Callable[["Video"], "Video"]) -> str | None:
        """Apply `edit` to the upload's video. Return `None`, or a text for the log if the video was deleted."""
        try:
            self.videos.change(upload["videoId"], CALLER.acting_for(request_id_of(upload)), now, edit)
        except NotFound:
            return "ignored: video deleted"
        return None


def _created(notification: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the bucket and key of each new object in a notification; raise BadMessage if S3 did not send it."""
    if notification.get("Event") == "s3:TestEvent":
        return  # S3 sends a test event when notifications are configured
    try:
        created = [
            (record.s3.bucket.name, unquote_plus(record.s3.get_object.key))
            for record in S3Event(dict(notification)).records
            if record.event_name.startswith("ObjectCreated:")
        ]
    except (KeyError, TypeError, AttributeError):
        raise BadMessage("The message is not an S3 notification.") from None
    yield from created


def _mismatch(upload: "Upload", facts: ObjectMetadata) -> str | None:
    """Return a sentence for the owner that states how an object differs from its Upload item.

    `None` if type and size are equal.
    """
    if facts.size == 0:
        return "The uploaded file is empty."
    if facts.size != upload["fileSize"]:
        return f"The file has {facts.size} bytes, not the announced {upload['fileSize']}."
    if facts.content_type != upload["contentType"]:
        kind = "".join(char if char.isprintable() else "?" for char in facts.content_type[:100]) or "unknown"
        return f"The file's type is {kind}, not the announced {upload['contentType']}."
    return None


def _source(upload: "Upload", facts: ObjectMetadata, now: int) -> "VideoSource":
    return {
        "uploadId": upload["uploadId"],
        "uri": upload["uri"],
        "etag": facts.etag,
        "fileSize": facts.size,
        "contentType": facts.content_type,
        "arrivedAt": now,
    }
