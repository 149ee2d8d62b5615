"""Playing a video: URLs of its film and renditions that are good for a while, for those who may see it.

Only what the service itself knows to be made of this video is signed: the film that arrived, and what transcoders
reported of it. Addresses that clients wrote in `resolutions` are never signed, or anybody could have any object read to
them that the function's role may read.
"""

from typing import Any

from shared.aws.s3 import Objects, object_uri
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotPlayable
from shared.films.job import renditions_folder
from shared.films.readiness import why_not_ready
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_published
from shared.videos.documents import with_made
from shared.videos.links import Links

SECONDS = 3600
"""How long the URLs are good, unless the credentials that they are signed with end before."""
RENDITION_TYPE = "video/mp4"
"""Of every rendition: docs/transcode-queue.md."""
ATTRIBUTES = (*VISIBILITY_ATTRIBUTES, "videoId", "duration", "source", "thumbnails", "pictures", "failure")
"""What is read of a video."""
PICTURES = {"poster": "poster", "storyboard": "storyboard.vtt"}
"""What is shown of the pictures, by their names in `thumbnails`."""


class Signer:
    """Makes what a player gets to see of a video; its URLs can do no more than the credentials that sign them."""

    def __init__(self, objects: Objects, media_bucket: str, links: Links) -> None:
        self._objects = objects
        self._media_bucket = media_bucket
        self._links = links

    def playback(self, video: Item, caller: Caller, now: int) -> dict[str, Any]:
        """The answer to a caller who may see the video at `now`, in epoch seconds; raises NotPlayable.

        Sizes in bytes, `duration` in milliseconds, `bitRate` in bits a second; what is not known is left out.
        """
        owner = caller.owns(video["userId"])
        if video["status"] == "deleted":
            raise NotPlayable(why_not_ready(video, [], now)[0])
        ends = now + SECONDS
        if not owner:  # nobody else may go on after the video has expired
            ends = min(ends, int(video.get("expiresAt", ends)))
        film = video.get("source", {})
        duration = _duration(video)
        source = self._source(film, duration, ends - now) if owner and film else None
        renditions = self._renditions(video["videoId"], film, duration, ends - now)
        if not (source or renditions):
            raise NotPlayable(_nothing_there(video, now) if owner else "The video has no rendition to play yet.")
        pictures = self._links.shown({"thumbnails": with_made(video)["thumbnails"]})["thumbnails"]
        answer = {
            "videoId": video["videoId"],
            "duration": duration,
            "expiresAt": ends,
            "whyHidden": _why_hidden(video, now) if owner else None,
            "source": source,
            "renditions": renditions,
            **{name: pictures.get(picture) for name, picture in PICTURES.items()},
        }
        return _known(answer)

    def text(self, key: str, kind: str, seconds: int) -> str:
        """A URL of a text in the media bucket, of this media type, which is good for so many seconds."""
        return self._objects.presigned_get(object_uri(self._media_bucket, key), kind, seconds)

    def _source(self, film: Item, duration: int | None, seconds: int) -> dict[str, Any]:
        media = film.get("media", {})
        kind, size = film["contentType"], int(film["fileSize"])
        sides = {"width": media.get("width"), "height": media.get("height")}
        url = self._objects.presigned_get(film["uri"], kind, seconds)
        return _known({"type": kind, **sides, "size": size, "bitRate": _bit_rate(size, duration), "url": url})

    def _renditions(self, video_id: str, film: Item, duration: int | None, seconds: int) -> list[dict[str, Any]]:
        """What was made of the film, the largest first."""
        folder = renditions_folder(self._media_bucket, video_id)
        # Restored into another deployment, a video may name what lies in the bucket of the first.
        made = {name: uri for name, uri in film.get("made", {}).items() if uri.startswith(folder)}
        sides, sizes = film.get("renditions", {}), film.get("sizes", {})
        shown = [
            {
                "name": name,
                "type": RENDITION_TYPE,
                **{side: sides.get(name, {}).get(side) for side in ("width", "height")},
                "size": sizes.get(name),
                "bitRate": _bit_rate(sizes.get(name), duration),
                "url": self._objects.presigned_get(uri, RENDITION_TYPE, seconds),
            }
            for name, uri in made.items()
        ]
        shown.sort(key=lambda rendition: (-(rendition["width"] or 0) * (rendition["height"] or 0), rendition["name"]))
        return [_known(rendition) for rendition in shown]


def _duration(video: Item) -> int | None:
    """Of the film itself, which is what plays; before that was examined, as its owner says."""
    duration = video.get("source", {}).get("media", video).get("duration")
    return None if duration is None else int(duration)


def _bit_rate(size: int | None, duration: int | None) -> int | None:
    """The mean bits a second of `size` bytes in `duration` milliseconds."""
    return round(int(size) * 8000 / duration) if size and duration else None


def _why_hidden(video: Item, now: int) -> str | None:
    """Why nobody but its owner and admins can play the video now; None when it is published."""
    if is_published(video, now):
        return None
    if video["status"] != "ready":
        return f"The video is {video['status']}; GET .../why-not-ready says what is missing."
    if video["visibility"] != "public":
        return "The video is private."
    return "The video has expired." if video.get("expiresAt", now + 1) <= now else "The video's publishAt has not come."


def _nothing_there(video: Item, now: int) -> str:
    """Why its owner has nothing to play: then no film has arrived."""
    if video["status"] != "ready":
        return why_not_ready(video, [], now)[0]
    return "The video is ready, but has no film. Begin an upload by POST .../upload."


def _known(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}
