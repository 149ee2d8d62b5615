"""Makes the pictures of films, which are the poster in several widths and the storyboard, and takes their subtitles out."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from shared.aws.runtime import EntryPoint, Resources
from shared.aws.s3 import Objects, ObjectSource, object_uri
from shared.aws.sqs import process
from shared.captions.cues import MOST_BYTES, MOST_CUES
from shared.captions.film_store import FilmCaptions
from shared.captions.of_film import texts_of
from shared.captions.store import PROPOSED, TYPE, text_hash, text_key
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import logged
from shared.films.job import Beside, for_job
from shared.films.jobs import JobStore
from shared.films.worker import Result, Worker
from shared.media.results import Facts, Picture
from shared.media.sandbox import Sandbox
from shared.videos import video
from shared.videos.links import THUMBNAILS

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

NAME = "thumbnails"
"""Who writes what it makes."""
FOR_EVER = "public, max-age=31536000, immutable"
"""Another film or another moment has another hash, and so another URL."""


class ThumbnailsSettings(Settings):
    media_bucket: str
    aws_lambda_function_memory_size: int
    """Megabytes; set by Lambda."""


class Painter:
    """Does the jobs of kinds `poster`, `storyboard` and `captions`."""

    def __init__(
        self, objects: Objects, reader: Sandbox, bucket: str, captions: FilmCaptions, clock: Callable[[], float]
    ) -> None:
        self.objects = objects
        self.reader = reader
        self.bucket = bucket
        self.captions = captions
        self.clock = clock

    def do(self, job: Item, item: Item) -> Result:
        """Make the pictures of one kind, or the captions; raises UnreadableFilm."""
        film = job["input"]
        source = ObjectSource(self.objects, film["source"], film["etag"], film["fileSize"])
        if job["kind"] == "captions":
            return self._captions(job, source)
        facts = Facts.of(item["source"]["media"])
        make = {"poster": self._poster, "storyboard": self._storyboard}[job["kind"]]
        pictures, more = make(job, source, facts)
        return Result({"pictures": sorted(pictures), **more}, lambda video_item: video.pictured(video_item, pictures))

    def _poster(self, job: Item, source: ObjectSource, facts: Facts) -> tuple[Item, Item]:
        made = self.reader.poster(source, facts, job["input"].get("time"))
        stored = {name: picture | {"time": made.time} for name, picture in self._stored(job, made.pictures).items()}
        largest = max(
            (picture for picture in made.pictures if picture.content_type == "image/jpeg"),
            key=lambda picture: picture.width,
        )
        return {"poster": stored[largest.name], **stored}, {}

    def _storyboard(self, job: Item, source: ObjectSource, facts: Facts) -> tuple[Item, Item]:
        made = self.reader.storyboard(source, facts)
        stored = self._stored(job, [made.sheet])
        url = self._put(job, "storyboard.vtt", made.cues.encode(), "text/vtt; charset=utf-8")
        cues = {"storyboard.vtt": {"url": url, "fileSize": len(made.cues.encode())}}
        chapters: list[Item] = [
            {"start": each.start} | ({"title": each.title} if each.title else {}) for each in made.chapters
        ]
        return stored | cues, {PROPOSED: chapters} if chapters else {}

    def _captions(self, job: Item, source: ObjectSource) -> Result:
        """The texts as objects, which nothing names until the job is done: captions and job are one transaction."""
        texts, skipped = texts_of(self.reader.subtitles(source, MOST_BYTES, MOST_CUES).tracks)
        for text in texts:
            key = text_key(job["videoId"], text_hash(text.content))
            self.objects.put(self.bucket, key, text.content, f"{TYPE}; charset=utf-8")
        writer = for_job(Caller.job(NAME), job)

        def placing(video_item: Item) -> Beside:
            placed = self.captions.placing(texts, video_item, writer, int(self.clock()))
            return placed._replace(output=placed.output | {"skipped": [*skipped, *placed.output["skipped"]]})

        return Result({}, lambda video_item: video_item, placing)

    def _stored(self, job: Item, pictures: Iterable[Picture]) -> Item:
        return {
            picture.name: {
                "url": self._put(job, picture.name, picture.data, picture.content_type),
                "width": picture.width,
                "height": picture.height,
                "fileSize": len(picture.data),
            }
            for picture in pictures
        }

    def _put(self, job: Item, name: str, data: bytes, content_type: str) -> str:
        key = f"{THUMBNAILS}{job['videoId']}/{job['inputHash']}/{name}"
        self.objects.put(self.bucket, key, data, content_type, cache_control=FOR_EVER)
        return object_uri(self.bucket, key)


def make(
    jobs: JobStore, objects: Objects, reader: Sandbox, bucket: str, clock: Callable[[], float] = time.time
) -> LambdaHandler:
    """The handler over the stores; `clock` gives epoch seconds."""
    painter = Painter(objects, reader, bucket, FilmCaptions(jobs.table), clock)
    worker = Worker(NAME, jobs, clock, painter.do)

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, worker.handle)

    return logged(handle)


def _deployed(settings: ThumbnailsSettings, resources: Resources) -> LambdaHandler:
    jobs = JobStore(resources.table(settings.table_name))
    reader = Sandbox.within(settings.aws_lambda_function_memory_size)
    return make(jobs, resources.objects, reader, settings.media_bucket, resources.clock)


lambda_handler = EntryPoint(ThumbnailsSettings, _deployed)
