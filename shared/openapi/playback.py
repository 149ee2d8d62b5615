"""OpenAPI documentation of the operations of the function `playback`."""

from shared.captions.models import LATEST, LONGEST_TITLE, MAX_CHAPTERS
from shared.captions.store import TYPE
from shared.core import errors
from shared.core.limits import MAX_SOURCE_BYTES
from shared.job_kinds import RENDITION
from shared.openapi.spec import EXAMPLE_ID, Operation, json_content, object_of, ref
from shared.openapi.spec import SECONDS as EPOCH_SECONDS
from shared.processing.playback import RENDITION_TYPE, SECONDS
from shared.web.parameters import Schema

_PICTURES = f"https://d111111abcdef8.cloudfront.net/thumbnails/{EXAMPLE_ID}/9f86d081884c7d659a2feaa0c55ad015"
PLAYBACK: Schema = {
    "videoId": EXAMPLE_ID,
    "duration": 60000,
    "expiresAt": 1717648800,
    "renditions": [
        {
            "name": "720p",
            "type": RENDITION_TYPE,
            "width": 1280,
            "height": 720,
            "size": 22500000,
            "bitRate": 3000000,
            "url": f"https://media.s3.us-east-1.amazonaws.com/renditions/{EXAMPLE_ID}/"
            "0080042902dc89071af6e75eaebe1061/720p.mp4?X-Amz-Signature=...",
        }
    ],
    "captions": [
        {
            "language": "en",
            "type": TYPE,
            "url": f"https://media.s3.us-east-1.amazonaws.com/captions/{EXAMPLE_ID}/"
            "2c26b46b68ffc68ff99b453c1d304134.vtt?X-Amz-Signature=...",
        }
    ],
    "chapters": [{"start": 0, "title": "The harbour"}, {"start": 31500, "title": "Out at sea"}],
    "poster": {"url": f"{_PICTURES}/poster-1280.jpg", "width": 1280, "height": 720, "fileSize": 90000, "time": 1000},
    "storyboard": {"url": f"{_PICTURES}/storyboard.vtt", "fileSize": 5400},
}

TAG_DESCRIPTIONS = {"playback": "URLs for players"}
OPERATIONS: dict[str, Operation] = {
    "getPlayback": Operation(
        "Get the playback URLs of a video",
        "Returns signed URLs of renditions (largest first), captions, poster and storyboard; the owner and admins "
        "also receive the source video. The URLs support range requests without a token until `expiresAt`, at "
        f"most {SECONDS // 3600} hour; after a 403, request new URLs. Available to all callers that may see the "
        "video; counts no view, and 409 explains why nothing is playable.",
        {200: {"description": "The URLs", **json_content(ref("Playback"), PLAYBACK)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound, errors.NotPlayable),
    ),
}


def schemas() -> Schema:
    """Return the schemas of the response, by name."""
    url: Schema = {"type": "string", "format": "uri"}
    side: Schema = {"type": "integer", "minimum": 1, "description": "Pixels"}
    file_properties = {
        "type": {"type": "string", "description": "Media type of the file"},
        "width": side,
        "height": side,
        "size": {"type": "integer", "minimum": 1, "maximum": MAX_SOURCE_BYTES, "description": "Bytes"},
        "bitRate": {
            "type": "integer",
            "minimum": 0,
            "description": "Mean bit rate in bits per second, including audio",
        },
        "url": url,
    }
    name: Schema = {"type": "string", "pattern": f"^{RENDITION}$"}
    end: Schema = {
        **EPOCH_SECONDS,
        "description": "Epoch seconds; the URLs of videos and captions expire no later",
    }
    return {
        "Playback": object_of(
            {
                "videoId": {"type": "string", "format": "uuid"},
                "duration": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Milliseconds (declared by the owner until the source video is probed)",
                },
                "expiresAt": end,
                "whyHidden": {
                    "type": "string",
                    "description": "Reason why only the owner and admins can play the video; shown only to them",
                },
                "source": ref("PlayableSource"),
                "renditions": {"type": "array", "items": ref("PlayableRendition")},
                "captions": {"type": "array", "items": ref("PlayableCaptions"), "description": "In order of language"},
                "chapters": {"type": "array", "items": ref("PlayableChapter"), "maxItems": MAX_CHAPTERS},
                "poster": ref("ShownThumbnail"),
                "storyboard": ref("ShownThumbnail"),
            },
            optional=("duration", "whyHidden", "source", "poster", "storyboard"),
        ),
        "PlayableCaptions": object_of(
            {
                "language": {"type": "string", "description": "BCP 47 tag"},
                "type": {"type": "string", "description": f"Media type of the file: {TYPE}"},
                "url": url,
            }
        ),
        "PlayableChapter": object_of(
            {
                "start": {"type": "integer", "minimum": 0, "maximum": LATEST, "description": "Milliseconds"},
                "title": {"type": "string", "minLength": 1, "maxLength": LONGEST_TITLE},
            }
        ),
        "PlayableSource": object_of(file_properties, optional=("width", "height", "bitRate")),
        "PlayableRendition": object_of(
            {"name": name, **file_properties}, optional=("width", "height", "size", "bitRate")
        ),
    }
