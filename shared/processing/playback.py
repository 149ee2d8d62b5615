"""Playback of a video: presigned URLs of its source file and renditions, for callers who may see it.

The signer signs only URIs that the service itself recorded: the uploaded source file, and renditions that transcoders
reported. It never signs URIs in `resolutions`, because clients supply them. A client could otherwise read any object
that the function's role can read.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shared.aws.s3 import Objects, object_uri
from shared.core.caller import Caller
from shared.core.errors import NotPlayable
from shared.processing.job_states import renditions_folder
from shared.processing.readiness import why_not_ready
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_published
from shared.videos.documents import with_job_output
from shared.videos.links import Links

if TYPE_CHECKING:
    from shared.entities import AnyVideo

SECONDS = 3600
"""Maximum lifetime of a URL in seconds. A URL also expires with the credentials that signed it."""
RENDITION_TYPE = "video/mp4"
"""Media type of every rendition, as docs/transcode-queue.md requires."""
ATTRIBUTES = (*VISIBILITY_ATTRIBUTES, "videoId", "duration", "source", "thumbnails", "pictures", "failure")
"""Attributes of a video that `PlaybackSigner.playback` reads."""
PICTURES = {"poster": "poster", "storyboard": "storyboard.vtt"}
"""Response fields with the URL of a thumbnail, mapped to the thumbnail's name in the video's `thumbnails`."""


class PlaybackSigner:
    """Builder of playback responses, which contain presigned URLs. A URL grants no more than the credentials that
    signed it."""

    def __init__(self, objects: Objects, media_bucket: str, links: Links) -> None:
        self._objects = objects
        self._media_bucket = media_bucket
        self._links = links

    def playback(self, video: "AnyVideo", caller: Caller, now: int) -> dict[str, Any]:
        """Return the playback response for a caller who may see the video; raise NotPlayable if no file can be played.

        `now` is in epoch seconds. In the response, sizes are in bytes, `duration` in milliseconds and `bitRate` in bits
        per second. Unknown values are omitted.
        """
        owner = caller.owns(video["userId"])
        if video["status"] == "deleted":
            raise NotPlayable(why_not_ready(video, [], now)[0])
        ends = now + SECONDS
        if not owner:  # only the owner may continue after the video has expired
            ends = min(ends, int(video.get("expiresAt", ends)))
        source_attributes = video.get("source", {})
        duration = _duration(video)
        source = self._source(source_attributes, duration, ends - now) if owner and source_attributes else None
        renditions = self._renditions(video["videoId"], source_attributes, duration, ends - now)
        if not (source or renditions):
            raise NotPlayable(_why_no_source(video, now) if owner else "The video has no rendition yet. Retry later.")
        pictures = self._links.to_urls({"thumbnails": with_job_output(video)["thumbnails"]})["thumbnails"]
        document = {
            "videoId": video["videoId"],
            "duration": duration,
            "expiresAt": ends,
            "whyHidden": _why_hidden(video, now) if owner else None,
            "source": source,
            "renditions": renditions,
            **{name: pictures.get(picture) for name, picture in PICTURES.items()},
        }
        return _without_none(document)

    def text(self, key: str, kind: str, seconds: int) -> str:
        """Return a presigned URL of a text object in the media bucket, valid for `seconds`. `kind` is the object's
        media type."""
        return self._objects.presign_get(object_uri(self._media_bucket, key), kind, seconds)

    def _source(self, source: Mapping[str, Any], duration: int | None, seconds: int) -> dict[str, Any]:
        media = source.get("media", {})
        kind, size = source["contentType"], int(source["fileSize"])
        sides = {"width": media.get("width"), "height": media.get("height")}
        url = self._objects.presign_get(source["uri"], kind, seconds)
        return _without_none({"type": kind, **sides, "size": size, "bitRate": _bit_rate(size, duration), "url": url})

    def _renditions(
        self, video_id: str, source: Mapping[str, Any], duration: int | None, seconds: int
    ) -> list[dict[str, Any]]:
        """Return the renditions of the source file, largest first."""
        folder = renditions_folder(self._media_bucket, video_id)
        # A video that was restored into another deployment may name objects in the bucket of its original deployment.
        uris = {name: uri for name, uri in source.get("made", {}).items() if uri.startswith(folder)}
        sides, sizes = source.get("renditions", {}), source.get("sizes", {})
        shown = [
            {
                "name": name,
                "type": RENDITION_TYPE,
                **{side: sides.get(name, {}).get(side) for side in ("width", "height")},
                "size": sizes.get(name),
                "bitRate": _bit_rate(sizes.get(name), duration),
                "url": self._objects.presign_get(uri, RENDITION_TYPE, seconds),
            }
            for name, uri in uris.items()
        ]
        shown.sort(key=lambda rendition: (-(rendition["width"] or 0) * (rendition["height"] or 0), rendition["name"]))
        return [_without_none(rendition) for rendition in shown]


def _duration(video: "AnyVideo") -> int | None:
    """Return the duration of the source file in milliseconds.

    Before the probe, return the duration that the owner stated; `None` if there is none.
    """
    duration = video.get("source", {}).get("media", video).get("duration")
    return None if duration is None else int(duration)


def _bit_rate(size: int | None, duration: int | None) -> int | None:
    """Return the mean bit rate in bits per second of a file of `size` bytes and `duration` milliseconds. `None` if the
    size or the duration is unknown."""
    return round(int(size) * 8000 / duration) if size and duration else None


def _why_hidden(video: "AnyVideo", now: int) -> str | None:
    """Return the reason why other users cannot play the video now, as a sentence for the owner. `None` if the video is
    published."""
    if is_published(video, now):
        return None
    if video["status"] != "ready":
        return f"The video is {video['status']}. GET .../why-not-ready gives the reason."
    if video["visibility"] != "public":
        return "The video is private."
    return (
        "The video has expired."
        if video.get("expiresAt", now + 1) <= now
        else "The video's publishAt is in the future."
    )


def _why_no_source(video: "AnyVideo", now: int) -> str:
    """Return the reason why a video without a source file cannot be played, as a sentence for the owner."""
    if video["status"] != "ready":
        return why_not_ready(video, [], now)[0]
    return "The video is ready, but has no source video. Begin an upload by POST .../upload."


def _without_none(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}
