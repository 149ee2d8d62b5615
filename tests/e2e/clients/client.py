"""What somebody writes who calls the service from Python, with a client made by openapi-python-client."""

import json
import sys
import time
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import httpx
from video_metadata_client import AuthenticatedClient
from video_metadata_client.api.captions import put_captions
from video_metadata_client.api.uploads import create_upload, get_upload
from video_metadata_client.api.videos import batch_videos, create_video, get_video, list_videos, patch_video
from video_metadata_client.api.views import count_view, count_views
from video_metadata_client.models import (
    Batch,
    BatchResult,
    Captions,
    CaptionsContent,
    CaptionsContentFormat,
    DeleteOperation,
    EndedUpload,
    FetchedVideo,
    GetVideoFieldsItem,
    GetVideoIncludeItem,
    NewUpload,
    NewVideo,
    NewView,
    OpenPutUpload,
    PartialVideo,
    PutUpload,
    QueuedView,
    QueuedViews,
    Video,
    VideoPage,
    VideoPatch,
    VideoSummary,
    ViewCount,
    ViewResults,
)

Wanted = TypeVar("Wanted")


def body(kind: type[Wanted], answer: object) -> Wanted:
    """The answer, if it is what was asked for; the client also returns problems."""
    if not isinstance(answer, kind):
        raise TypeError(f"{kind.__name__} was asked for, and the answer is {answer}")
    return answer


def use(base_url: str, token: str, category: str, film: bytes) -> dict[str, object]:
    """Takes a video through its life, and returns what the service answered on the way."""
    with AuthenticatedClient(base_url, token, timeout=httpx.Timeout(120)) as client:
        created = body(Video, create_video.sync(client=client, body=NewVideo(title="A film", category=category)))
        video_id: UUID = created.video_id

        change = VideoPatch(description="Of a harbour", tags=["sea"])
        if_match = f'"{created.version}"'
        patched = body(Video, patch_video.sync(video_id, client=client, body=change, if_match=if_match))

        viewed = body(
            ViewCount, count_view.sync(video_id, client=client, body=NewView(viewer_id="tv", watched_ms=5000))
        )
        queue = QueuedViews(views=[QueuedView(id="a", video_id=video_id, at=int(time.time()))])
        queued = body(ViewResults, count_views.sync(client=client, body=queue)).results[0]

        include = [GetVideoIncludeItem.RATINGS, GetVideoIncludeItem.TAGS]
        fetched = body(FetchedVideo, get_video.sync(video_id, client=client, include=include))
        renditions: int = len(fetched.resolutions.additional_properties) if fetched.resolutions else 0
        if not fetched.included or not fetched.included.ratings:
            raise ValueError("nothing is included")
        average: float | None = fetched.included.ratings.average

        fields = [GetVideoFieldsItem.TITLE, GetVideoFieldsItem.STATUS]
        partial = body(PartialVideo, get_video.sync(video_id, client=client, fields=fields))

        page = body(VideoPage, list_videos.sync(client=client, user_id=created.user_id, category=category))
        listed = body(VideoSummary, page.items[0])

        text = "WEBVTT\n\n00:01.000 --> 00:02.000\nThe tide is out.\n"
        spoken = CaptionsContent(format_=CaptionsContentFormat.VTT, text=text)
        captions = body(Captions, put_captions.sync(video_id, "en", client=client, body=spoken))
        deletion = Batch(operations=[DeleteOperation(op="delete", video_id=video_id)])
        rehearsed = body(BatchResult, batch_videos.sync(client=client, body=deletion, dry_run=True))

        wanted = NewUpload(content_type="video/mp4", file_size=len(film))
        begun = body(PutUpload, create_upload.sync(video_id, client=client, body=wanted))
        open_ = body(OpenPutUpload, get_upload.sync(video_id, begun.upload_id, client=client))
        headers = open_.headers.additional_properties
        sent = httpx.request(open_.method, open_.url, headers=headers, content=film, timeout=120, trust_env=False)
        read = body(EndedUpload, get_upload.sync(video_id, begun.upload_id, client=client))

    return {
        "videoId": str(video_id),
        "description": patched.description,
        "views": {"viewCount": viewed.view_count, "counted": viewed.counted, "reason": viewed.reason},
        "queued": {"id": queued.id, "counted": queued.counted, "reason": queued.reason},
        "fetched": {
            "title": fetched.title,
            "viewCount": fetched.view_count,
            "tags": fetched.included.tags,
            "average": average,
            "renditions": renditions,
        },
        "partial": partial.to_dict(),
        "listed": {"title": listed.title, "status": listed.status},
        "captions": captions.cues,
        "rehearsed": {"dryRun": rehearsed.dry_run, "succeeded": rehearsed.succeeded},
        "sent": sent.status_code,
        "upload": read.state,
    }


if __name__ == "__main__":
    url, token, category, film = sys.argv[1:]
    sys.stdout.write(json.dumps(use(url, token, category, Path(film).read_bytes())))
