"""Storage of captions that a job extracted from the source file. Their `origin` is `film`.

Extracted captions never replace captions that the owner uploaded. They replace captions that were extracted from an
earlier source file. When a new source file arrives, all captions that were extracted from earlier files are deleted.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.dynamodb import Write
from shared.aws.expressions import change_between
from shared.aws.records import key_of, unchanged, with_version
from shared.aws.stream import Record
from shared.captions.store import MAX_LANGUAGES, UPLOAD, CaptionStore, text_hash
from shared.core.attributes import Item
from shared.core.caller import Caller, request_id_of
from shared.core.errors import VersionMismatch
from shared.processing.job_states import ExtraWrites
from shared.processing.job_store import ROUTER
from shared.processing.messages import Outgoing
from shared.relations.item_store import OWNER
from shared.schema import CAPTION

if TYPE_CHECKING:
    from shared.entities import AnyVideo

MAX_AT_ONCE = 90
"""Maximum number of languages to extract from one source file. The job's transaction writes the captions of all
languages, and DynamoDB limits a transaction to 100 items.
"""
_OWNERS = "The owner uploaded captions in this language."
_NO_ROOM = f"The video already has captions in {MAX_LANGUAGES} languages, the maximum."


class EmbeddedText(NamedTuple):
    """Extracted text of a subtitle track, as WebVTT."""

    track: int
    """Index of the track in the source file."""
    language: str
    """BCP 47 tag, such as `en`."""
    codec: str
    content: bytes
    """WebVTT file in UTF-8."""
    cues: int
    """Number of cues."""

    def skip(self, reason: str) -> Item:
        """Return a report that the job skipped the track of this text. `reason` is a sentence."""
        return skipped_text(self.track, self.language, self.codec, reason)


def skipped_text(track: int, language: str, codec: str, reason: str) -> Item:
    """Return the report of a skipped track, as the job's output contains it. `reason` is a sentence for the owner."""
    return {"track": track, "language": language, "codec": codec, "reason": reason}


class EmbeddedCaptionStore(CaptionStore):
    """Store of captions that were extracted from source files."""

    def caption_writes(self, texts: Sequence[EmbeddedText], video: "AnyVideo", caller: Caller, now: int) -> ExtraWrites:
        """Return the writes that store the extracted texts of a video. The result also has a report of stored and
        skipped tracks.

        The caller must store the texts as objects before it executes the writes. Each write has the condition that the
        captions in its language are unchanged since this call.
        """
        present = {item["language"]: item for item in self._languages(video["videoId"], consistent=True)}
        room = MAX_LANGUAGES - len(present)
        writes: list[Write] = []
        stored: list[Item] = []
        skipped: list[Item] = []
        for text in texts:
            existing = present.get(text.language)
            if existing and existing["origin"] != "film":
                skipped.append(text.skip(_OWNERS))
            elif existing is None and not room:
                skipped.append(text.skip(_NO_ROOM))
            else:
                room -= existing is None
                stored.append({"track": text.track, "language": text.language, "cues": text.cues})
                writes += self._write(text, existing, video, caller, now)
        return ExtraWrites({"captions": stored, "skipped": skipped}, writes)

    def _write(
        self, text: EmbeddedText, existing: Item | None, video: "AnyVideo", caller: Caller, now: int
    ) -> list[Write]:
        key = CAPTION.key(videoId=video["videoId"], language=text.language)
        content = {"text": text_hash(text.content), "cues": text.cues, "size": len(text.content), "origin": "film"}
        content |= {UPLOAD: video["source"]["uploadId"]}
        if existing and content.items() <= existing.items():
            return []
        item = {**key, "videoId": video["videoId"], "language": text.language, OWNER: video["userId"], **content}
        new = with_version(item, caller, now, version=existing["version"] + 1 if existing else 1)
        # An update, because the role of the media workers does not allow PutItem.
        return [self.table.update(key, change_between(existing or key, new), condition=unchanged(existing))]

    def video_changed(self, record: Record, now: int) -> Iterable[Outgoing]:
        """Delete captions that were extracted from earlier source files, if the stream record has a new source file.

        Returns no messages. Raises WriteContention if other writers change the captions at every attempt.
        """
        old, video = record.old, record.new
        if "source" not in old or "source" not in video:
            return ()
        upload = video["source"]["uploadId"]
        if old["source"]["uploadId"] == upload:
            return ()

        def is_older(item: Item | None) -> bool:
            return bool(item and item["origin"] == "film" and item.get(UPLOAD, "") < upload)

        caller = ROUTER.acting_for(request_id_of(video))
        for item in self._languages(video["videoId"], consistent=True):
            if is_older(item):
                with suppress(VersionMismatch):  # another writer has replaced the captions concurrently
                    self._remove(key_of(item), item, caller, is_older)
        return ()
