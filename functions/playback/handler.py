"""What a player needs of a video: film, renditions and captions by URLs that are good for a while, pictures, chapters."""

import time
from collections.abc import Callable
from functools import partial

from shared.aws.dynamodb import Table, make_client
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.captions.store import shown_while_playing
from shared.core.settings import LambdaHandler, entry_point, media_bucket, media_url, table_name
from shared.films.playback import ATTRIBUTES, Signer
from shared.schema import VIDEO
from shared.videos.access import seen_by
from shared.videos.links import Links
from shared.web.answers import Answer, respond
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.requests import Request


class Playback:
    """The handlers, one for each operation."""

    def __init__(self, videos: Table, signer: Signer) -> None:
        self.videos = videos
        self.signer = signer

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {"getPlayback": self.read}

    def read(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/playback"""
        item = self.videos.get(VIDEO.key(videoId=request.video_id()), attributes=ATTRIBUTES)
        video = seen_by(item, request.caller, request.now)
        answer = self.signer.playback(video, request.caller, request.now)
        sign = partial(self.signer.text, seconds=answer["expiresAt"] - request.now)
        answer |= shown_while_playing(self.videos, video["videoId"], sign)
        # Who has these URLs may read the films: they are not for any cache.
        return respond(200, answer, headers={"Cache-Control": "no-store"})


def make(videos: Table, signer: Signer, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over the table of videos; `clock` gives epoch seconds."""
    return make_http_handler("playback", Playback(videos, signer).handlers(), clock)


def _deployed() -> LambdaHandler:
    bucket = media_bucket()
    signer = Signer(Objects(make_s3_client()), bucket, Links(bucket, media_url()))
    return make(Table(table_name(), make_client()), signer)


lambda_handler = entry_point(_deployed)
