"""Captions and chapters of videos: items beside their videos. What captions say is an object in the media bucket.

An object is named by a hash of its text and never changes, and an item names one. So a reader never finds half a text, whoever takes a
change back finds the text of then, and a write that is cut off leaves an object that nothing names. All of them go with
their video (shared/upkeep/purging.py).
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from shared.aws.dynamodb import Table
from shared.aws.records import stamped
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import LimitReached, NotFound, invalid_field
from shared.core.position import Page, Position
from shared.films.wants import input_hash, wanted
from shared.relations.beside import OWNER, Allows, BesideStore, require_allowed
from shared.relations.children import children_of
from shared.schema import CAPTION, CHAPTERS, JOB, VIDEO
from shared.videos.access import seen_by

if TYPE_CHECKING:
    from shared.captions.models import ChaptersContent

MOST_LANGUAGES = 100
"""In how many languages a video may have captions; those that are added at the same moment may pass it by a few."""
MOST_STORED = 2_000_000
"""Bytes of captions as they are kept, which are all in one answer: `&` takes five bytes as `&amp;`."""
TYPE = "text/vtt"
"""Of what captions are kept as, and shown as (https://www.w3.org/TR/webvtt1/)."""
SUBRIP = "application/x-subrip"
"""SubRip has no registered media type; this is what players use."""
FORMATS: Mapping[str, Literal["vtt", "srt"]] = {TYPE: "vtt", SUBRIP: "srt"}
"""What captions may be sent as, by their media types."""
ORIGINS = ("owner", "film")
"""Who made captions: `film`, if a job took them out of the film."""
UPLOAD = "upload"
"""Attribute of captions that a job took out of a film: the id of its upload. Ids of later uploads are larger."""
PROPOSED = "chapters"
"""What chapters that are proposed are called in the output of the job `storyboard`."""
Keep = Callable[[str | None], None]
"""Sees to it that the object of new captions is there; takes the hash of the text that they replace, if any."""
_NONE, _NO_CHAPTERS = "There are no captions in this language.", "The video has no chapters."


def captions_folder(video_id: str) -> str:
    """Where the texts of a video's captions are, with a slash at the end."""
    return f"captions/{video_id}/"


def text_hash(text: bytes) -> str:
    """What names a text: 32 hexadecimal digits."""
    return hashlib.sha256(text).hexdigest()[:32]


def text_key(video_id: str, text: str) -> str:
    """The key of the object that has the text of this hash."""
    return f"{captions_folder(video_id)}{text}.vtt"


def text_uri(bucket: str, item: Item) -> str:
    """Where the text of captions is."""
    from shared.aws.s3 import object_uri  # botocore, which who takes changes back does not need

    return object_uri(bucket, text_key(item["videoId"], item["text"]))


def captions_document(item: Item) -> dict[str, Any]:
    """Captions as clients see them in lists: `cues` are how many, `size` is in bytes."""
    names = ("videoId", "language", "cues", "size", "origin", "version", "updatedAt")
    return {name: item[name] for name in names if name in item}


def chapters_document(item: Item) -> dict[str, Any]:
    """Chapters as clients see them."""
    shown = item | {"chapters": chapters_of(item)}
    return {name: shown[name] for name in ("videoId", "chapters", "version", "updatedAt")}


def proposed_of(video: Item, storyboard: Item | None) -> list[dict[str, Any]]:
    """The chapters that the job `storyboard` proposes for a video's present film: each has a `start`, some a `title`."""
    asked = wanted(video).get("storyboard")
    is_done = storyboard and asked and storyboard["state"] == "done" and storyboard["inputHash"] == input_hash(asked)
    return storyboard["output"].get(PROPOSED, []) if storyboard and is_done else []


def chapters_of(item: Item) -> list[dict[str, Any]]:
    """The chapters of an item, in order: each has `start` in milliseconds, and `title`."""
    return [{"start": chapter["start"], "title": chapter["title"]} for chapter in item["chapters"]]


def captions_list(video_id: str) -> tuple[object, ...]:
    """A video's captions, as the list that shared.web.paging binds a cursor to."""
    return "captions", video_id


class CaptionStore(BesideStore):
    """Captions and chapters in the table. Methods raise the errors of shared.core.errors."""

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
        """Create or replace the captions in a language; returns them, and whether they are new.

        `content` has `text`, the hash of an object, how many `cues` it has, its `size` in bytes, and its `origin`: `owner`, or
        `film` if a job took it out of the film. `keep` makes that object, once it is sure that the caller may; without it,
        the object is there. Raises NotFound or Forbidden for the video, IllegalTransition when that is deleted,
        LimitReached, VersionMismatch when `allows` refuses, WriteContention, and what `keep` raises.
        """
        key = CAPTION.key(videoId=video_id, language=language)
        video, present = self._own(key, video_id, caller, now)
        if present is None and len(self._languages(video_id)) >= MOST_LANGUAGES:
            raise LimitReached(f"The video has captions in {MOST_LANGUAGES} languages, the most that it may have.")
        require_allowed(allows, present)
        if keep:
            keep(present["text"] if present else None)
        item = {**key, "videoId": video_id, "language": language, OWNER: video["userId"], **content}
        return self._put(stamped(item, caller, now, version=1), present, allows)

    def delete(self, video_id: str, language: str, caller: Caller, now: int, allows: Allows) -> None:
        """Remove the captions in a language; raises as `put` does, and NotFound when there are none."""
        self._delete(CAPTION.key(videoId=video_id, language=language), video_id, caller, now, allows, _NONE)

    def read(self, video_id: str, language: str, caller: Caller, now: int) -> Item:
        """The captions in a language; raises NotFound for the video or for them."""
        return self._seen(CAPTION.key(videoId=video_id, language=language), video_id, caller, now, _NONE)

    def captions(self, video_id: str, caller: Caller, now: int, limit: int, after: Position | None) -> Page[Item]:
        """A page of a video's captions by language; raises NotFound when the caller may not see the video."""
        self._visible(video_id, caller, now)
        return children_of(self.table, video_id, CAPTION.sort_prefix, limit=limit, after=after)

    def put_chapters(
        self, video_id: str, content: "ChaptersContent", caller: Caller, now: int, allows: Allows
    ) -> tuple[Item, bool]:
        """Create or replace a video's chapters; returns and raises as `put` does, and InvalidContent for one behind its end."""
        key = CHAPTERS.key(videoId=video_id)
        video, present = self._own(key, video_id, caller, now)
        duration = video.get("source", {}).get("media", video).get("duration")
        last = content.chapters[-1]
        if duration is not None and last.start >= duration:
            detail = f"must be before the end of the film, at {int(duration)} ms"
            raise invalid_field(f"/chapters/{len(content.chapters) - 1}/start", detail)
        item = {**key, "videoId": video_id, OWNER: video["userId"], **content.model_dump()}
        return self._put(stamped(item, caller, now, version=1), present, allows)

    def delete_chapters(self, video_id: str, caller: Caller, now: int, allows: Allows) -> None:
        """Remove a video's chapters; raises as `delete` does."""
        self._delete(CHAPTERS.key(videoId=video_id), video_id, caller, now, allows, _NO_CHAPTERS)

    def chapters(self, video_id: str, caller: Caller, now: int) -> tuple[Item | None, list[dict[str, Any]]]:
        """A video's chapters, and for its owner those that are proposed; raises NotFound for the video, or if there are neither."""
        keys = VIDEO.key(videoId=video_id), CHAPTERS.key(videoId=video_id), JOB.key(videoId=video_id, kind="storyboard")
        item, present, storyboard = self.table.get_all(keys)
        video = seen_by(item, caller, now)
        proposed = proposed_of(video, storyboard) if caller.owns(video["userId"]) else []
        if present is None and not proposed:
            raise NotFound(_NO_CHAPTERS)
        return present, proposed

    def _languages(self, video_id: str, *, consistent: bool = False) -> list[Item]:
        prefix = CAPTION.sort_prefix
        return children_of(self.table, video_id, prefix, limit=MOST_LANGUAGES + 10, consistent=consistent).items


def shown_while_playing(
    table: Table, video_id: str, sign: Callable[[str, str], str]
) -> dict[str, list[dict[str, Any]]]:
    """The captions and the chapters of a video as a player gets them; `sign` makes a URL of a key and a media type.

    One Query, as they are neighbours among what lies beside it.
    """
    found = children_of(table, video_id, CAPTION.sort_prefix, up_to=CHAPTERS.sk, limit=MOST_LANGUAGES + 10).items
    captions = [
        {"language": item["language"], "type": TYPE, "url": sign(text_key(video_id, item["text"]), TYPE)}
        for item in found
        if "language" in item
    ]
    chapters = next((item for item in found if "chapters" in item), None)
    return {"captions": captions, "chapters": chapters_of(chapters) if chapters else []}
