"""Store of captions and chapters. Items of captions and chapters are in the video's partition, and texts of captions
are objects in S3.

An object's name contains the hash of its text, and the object never changes. Each item of captions refers to one
object. Therefore readers never see partial text, and a revert finds the earlier text. An interrupted write leaves only
an unreferenced object. All objects are deleted with their video (shared/background/purge.py).
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from shared.aws.dynamodb import Table
from shared.aws.records import with_version
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import LimitReached, NotFound, invalid_field
from shared.core.position import Page, Position
from shared.processing.desired_jobs import desired_jobs, input_hash
from shared.relations.children import children_of
from shared.relations.item_store import OWNER, Allows, VideoItemStore, require_allowed
from shared.schema import CAPTION, CHAPTERS, JOB, VIDEO
from shared.videos.access import require_visible

if TYPE_CHECKING:
    from shared.entities import AnyVideo

if TYPE_CHECKING:
    from shared.captions.models import ChaptersContent

MAX_LANGUAGES = 100
"""Maximum number of languages of a video's captions. Concurrent requests may exceed the limit by a few."""
MAX_STORED = 2_000_000
"""Maximum bytes of stored captions. The captions must fit into one response.

Stored captions can be longer than the uploaded text, because escaping turns `&` into `&amp;`.
"""
TYPE = "text/vtt"
"""Media type of stored and served captions (https://www.w3.org/TR/webvtt1/)."""
SUBRIP = "application/x-subrip"
"""Media type that players use for SubRip, which has no registered media type."""
FORMATS: Mapping[str, Literal["vtt", "srt"]] = {TYPE: "vtt", SUBRIP: "srt"}
"""Accepted formats by media type."""
ORIGINS = ("owner", "film")
"""Origins of captions: `owner` if the owner uploaded them, `film` if a job extracted them from the source file."""
UPLOAD = "upload"
"""Name of the attribute with the id of the upload from which captions were extracted. Later uploads have larger ids."""
PROPOSED = "chapters"
"""Name of the attribute for proposed chapters in the output of the job `storyboard`."""
Keep = Callable[[str | None], None]
"""Function that stores the text of new captions as an object. It receives the hash of the earlier text of the captions;
`None` if the language had no captions."""
_NONE, _NO_CHAPTERS = "The video has no captions in this language.", "The video has no chapters."


def captions_folder(video_id: str) -> str:
    """Return the key prefix of a video's caption texts, with a trailing slash."""
    return f"captions/{video_id}/"


def text_hash(text: bytes) -> str:
    """Return the hash of a caption text, which is part of the name of its object: 32 hexadecimal digits."""
    return hashlib.sha256(text).hexdigest()[:32]


def text_key(video_id: str, text: str) -> str:
    """Return the object key of a caption text. `text` is the hash of the text."""
    return f"{captions_folder(video_id)}{text}.vtt"


def text_uri(bucket: str, item: Item) -> str:
    """Return the S3 URI of the text of captions. `item` is the captions' item."""
    from shared.aws.s3 import object_uri  # imported late because it loads botocore, which reverts do not need

    return object_uri(bucket, text_key(item["videoId"], item["text"]))


def captions_document(item: Item) -> dict[str, Any]:
    """Return captions as the API lists them. `cues` is the number of cues, and `size` is in bytes."""
    names = ("videoId", "language", "cues", "size", "origin", "version", "updatedAt")
    return {name: item[name] for name in names if name in item}


def chapters_document(item: Item) -> dict[str, Any]:
    """Return chapters as API responses show them."""
    shown = item | {"chapters": chapters_of(item)}
    return {name: shown[name] for name in ("videoId", "chapters", "version", "updatedAt")}


def proposed_chapters(video: "AnyVideo", storyboard: Item | None) -> list[dict[str, Any]]:
    """Return the chapters that the job `storyboard` proposes for a video's current source file.

    Each chapter has a `start` in milliseconds, and some have a `title`. Empty if the job is not done for this file.
    """
    job_input = desired_jobs(video).get("storyboard")
    is_done = (
        storyboard and job_input and storyboard["state"] == "done" and storyboard["inputHash"] == input_hash(job_input)
    )
    return storyboard["output"].get(PROPOSED, []) if storyboard and is_done else []


def chapters_of(item: Item) -> list[dict[str, Any]]:
    """Return the chapters of an item, in order, each with `start` in milliseconds and `title`."""
    return [{"start": chapter["start"], "title": chapter["title"]} for chapter in item["chapters"]]


def captions_list(video_id: str) -> tuple[object, ...]:
    """Return the values that identify the list of a video's captions. A cursor is valid only for the list from which it
    comes."""
    return "captions", video_id


class CaptionStore(VideoItemStore):
    """Store of captions and chapters in the table. Methods raise the errors of shared.core.errors."""

    def put(
        self,
        video_id: str,
        language: str,
        content: Mapping[str, Any],
        caller: Caller,
        now: int,
        allows: Allows,
        keep: Keep | None = None,
    ) -> tuple[Item, bool]:
        """Create or replace the captions in a language. Return the item, and whether it is new.

        `content` has `text` (the hash of the text), `cues` (the number of cues), `size` in bytes, and `origin`. `keep`
        stores the text as an object. This method calls `keep` only after it has checked the caller's rights, the number
        of languages and the result of `allows`. Without `keep`, the object must exist already.

        Raises NotFound or Forbidden if the caller may not change the video, and IllegalTransition if the video is
        deleted. Raises LimitReached for too many languages, VersionMismatch if `allows` returns false, WriteContention,
        and the errors of `keep`.
        """
        key = CAPTION.key(videoId=video_id, language=language)
        video, present = self._read_owned(key, video_id, caller, now)
        if present is None and len(self._languages(video_id)) >= MAX_LANGUAGES:
            raise LimitReached.full(f"The video already has captions in {MAX_LANGUAGES} languages")
        require_allowed(allows, present)
        if keep:
            keep(present["text"] if present else None)
        item = {**key, "videoId": video_id, "language": language, OWNER: video["userId"], **content}
        return self._put(with_version(item, caller, now, version=1), present, allows)

    def delete(self, video_id: str, language: str, caller: Caller, now: int, allows: Allows) -> None:
        """Delete the captions in a language. Raises the errors of `put`, and NotFound if the captions do not exist."""
        self._delete(CAPTION.key(videoId=video_id, language=language), video_id, caller, now, allows, _NONE)

    def read(self, video_id: str, language: str, caller: Caller, now: int) -> Item:
        """Return the captions in a language. Raises NotFound if the caller may not see the video, or if it has no
        captions in this language."""
        return self._read_visible(CAPTION.key(videoId=video_id, language=language), video_id, caller, now, _NONE)

    def captions(self, video_id: str, caller: Caller, now: int, limit: int, after: Position | None) -> Page[Item]:
        """Return a page of a video's captions, sorted by language. Raises NotFound if the caller may not see the video."""
        self._require_visible(video_id, caller, now)
        return children_of(self.table, video_id, CAPTION.sort_prefix, limit=limit, after=after)

    def put_chapters(
        self, video_id: str, content: "ChaptersContent", caller: Caller, now: int, allows: Allows
    ) -> tuple[Item, bool]:
        """Create or replace a video's chapters. Return the item, and whether it is new.

        Raises the errors of `put`, and InvalidContent if a chapter does not start before the end of the video.
        """
        key = CHAPTERS.key(videoId=video_id)
        video, present = self._read_owned(key, video_id, caller, now)
        duration = video.get("source", {}).get("media", video).get("duration")
        last = content.chapters[-1]
        if duration is not None and last.start >= duration:
            detail = f"must be less than {int(duration)}, the milliseconds of the source video"
            raise invalid_field(f"/chapters/{len(content.chapters) - 1}/start", detail)
        item = {**key, "videoId": video_id, OWNER: video["userId"], **content.model_dump()}
        return self._put(with_version(item, caller, now, version=1), present, allows)

    def delete_chapters(self, video_id: str, caller: Caller, now: int, allows: Allows) -> None:
        """Delete a video's chapters. Raises the errors of `delete`."""
        self._delete(CHAPTERS.key(videoId=video_id), video_id, caller, now, allows, _NO_CHAPTERS)

    def chapters(self, video_id: str, caller: Caller, now: int) -> tuple[Item | None, list[dict[str, Any]]]:
        """Return the item with a video's chapters (`None` if it has none), and the list of proposed chapters.

        The list of proposed chapters is empty unless the caller is the owner or an admin. Costs one BatchGetItem.
        Raises NotFound if the video is not visible, or if it has neither chapters nor proposed chapters.
        """
        keys = VIDEO.key(videoId=video_id), CHAPTERS.key(videoId=video_id), JOB.key(videoId=video_id, kind="storyboard")
        item, present, storyboard = self.table.get_all(keys)
        video = require_visible(item, caller, now)
        proposed = proposed_chapters(video, storyboard) if caller.owns(video["userId"]) else []
        if present is None and not proposed:
            raise NotFound(_NO_CHAPTERS)
        return present, proposed

    def _languages(self, video_id: str, *, consistent: bool = False) -> list[Item]:
        prefix = CAPTION.sort_prefix
        return children_of(self.table, video_id, prefix, limit=MAX_LANGUAGES + 10, consistent=consistent).items


def list_playable_tracks(
    table: Table, video_id: str, sign: Callable[[str, str], str]
) -> dict[str, list[dict[str, Any]]]:
    """Return a video's `captions` and `chapters` for a player. `sign` returns a presigned URL for an object key and a
    media type.

    Costs one Query, because the sort keys of captions and chapters are adjacent.
    """
    found = children_of(table, video_id, CAPTION.sort_prefix, up_to=CHAPTERS.sk, limit=MAX_LANGUAGES + 10).items
    captions = [
        {"language": item["language"], "type": TYPE, "url": sign(text_key(video_id, item["text"]), TYPE)}
        for item in found
        if "language" in item
    ]
    chapters = next((item for item in found if "chapters" in item), None)
    return {"captions": captions, "chapters": chapters_of(chapters) if chapters else []}
