"""HTTP API of playback: thumbnails, chapters, and presigned URLs of a video's source file, renditions and captions."""

from functools import partial

from shared.aws.runtime import EntryPoint, Resources
from shared.captions.store import list_playable_tracks
from shared.core.settings import Settings
from shared.processing.playback import ATTRIBUTES, PlaybackSigner
from shared.schema import VIDEO
from shared.videos.access import require_visible
from shared.videos.links import Links
from shared.web.http import http_function, operation
from shared.web.requests import Request
from shared.web.responses import HttpResponse, respond


class PlaybackSettings(Settings):
    media_bucket: str
    media_url: str


class PlaybackHandlers:
    """Handler of the operation `getPlayback`. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: PlaybackSettings, resources: Resources) -> None:
        self.videos = resources.table(settings.table_name)
        links = Links(settings.media_bucket, settings.media_url)
        self.signer = PlaybackSigner(resources.objects, settings.media_bucket, links)

    @operation("getPlayback")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/playback"""
        item = self.videos.get(VIDEO.key(videoId=request.video_id()), attributes=ATTRIBUTES)
        video = require_visible(item, request.caller, request.now)
        document = self.signer.playback(video, request.caller, request.now)
        sign = partial(self.signer.text, seconds=document["expiresAt"] - request.now)
        document |= list_playable_tracks(self.videos, video["videoId"], sign)
        # Anyone with these URLs can read the files, so no cache may store the response.
        return respond(200, document, headers={"Cache-Control": "no-store"})


lambda_handler = EntryPoint(PlaybackSettings, http_function(PlaybackHandlers))
