"""Worker of the jobs `poster`, `storyboard` and `captions`: generates thumbnails from source files, and extracts subtitles."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.aws.s3 import Objects, object_uri
from shared.captions.cues import MAX_BYTES, MAX_CUES
from shared.captions.embedded import extract_texts
from shared.captions.embedded_store import EmbeddedCaptionStore
from shared.captions.store import PROPOSED, TYPE, text_hash, text_key
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler, Settings
from shared.media.results import MediaInfo, Picture, Poster, Storyboard, Subtitles
from shared.media.sandbox import Sandbox
from shared.processing.job_states import ExtraWrites, for_job
from shared.processing.job_store import JobStore
from shared.processing.worker import JobConsumer, JobResult, JobWorker
from shared.videos import video
from shared.videos.links import THUMBNAILS

if TYPE_CHECKING:
    from shared.entities import Job, Video

NAME = "thumbnails"
"""Name recorded as the author of generated files."""
IMMUTABLE = "public, max-age=31536000, immutable"
"""Cache-Control value of thumbnails. The URL of a thumbnail contains a hash of the job's input, so a new source file or
poster time leads to a new URL."""


class ThumbnailsSettings(Settings):
    media_bucket: str
    aws_lambda_function_memory_size: int
    """Memory of the function in megabytes. Lambda sets the environment variable."""


class ThumbnailWorker(JobWorker):
    """Base class of the workers. It stores generated files as immutable objects."""

    def __init__(self, objects: Objects, reader: Sandbox, bucket: str) -> None:
        super().__init__(objects, reader)
        self.bucket = bucket

    def store(self, job: "Job", name: str, data: bytes, content_type: str) -> str:
        """Store a generated file, and return its S3 URI. The URI contains the video's id and the hash of the job's
        input."""
        key = f"{THUMBNAILS}{job['videoId']}/{job['inputHash']}/{name}"
        self.objects.put(self.bucket, key, data, content_type, cache_control=IMMUTABLE)
        return object_uri(self.bucket, key)

    def store_pictures(self, job: "Job", pictures: Iterable[Picture]) -> dict[str, Item]:
        """Store thumbnails. Return the entries to add to the video's attribute `pictures`, by name of the thumbnail."""
        return {
            picture.name: {
                "url": self.store(job, picture.name, picture.data, picture.content_type),
                "width": picture.width,
                "height": picture.height,
                "fileSize": len(picture.data),
            }
            for picture in pictures
        }


def _apply_pictures(pictures: Item, output: Item) -> JobResult:
    """Return the result of a job that adds `pictures` to the video's thumbnails. `output` has additional fields of the
    job's output."""
    return JobResult({"pictures": sorted(pictures), **output}, lambda item: video.apply_pictures(item, pictures))


class PosterWorker(ThumbnailWorker):
    """Worker that generates the poster in several widths."""

    kind = "poster"

    def do(self, job: "Job", item: "Video") -> JobResult:
        """Generate the poster from the frame that the owner chose, or from an automatically selected frame."""
        result: Poster = self.read("poster", job, MediaInfo.of(item["source"]["media"]), job["input"].get("time"))
        stored = self.store_pictures(job, result.pictures)
        stored = {name: picture | {"time": result.time} for name, picture in stored.items()}
        jpegs = (picture for picture in result.pictures if picture.content_type == "image/jpeg")
        largest = max(jpegs, key=lambda picture: picture.width)
        return _apply_pictures({"poster": stored[largest.name], **stored}, {})


class StoryboardWorker(ThumbnailWorker):
    """Worker that generates the storyboard and proposes chapters."""

    kind = "storyboard"

    def do(self, job: "Job", item: "Video") -> JobResult:
        """Generate the storyboard: an image with many frames, and WebVTT cues that refer to its parts."""
        result: Storyboard = self.read("storyboard", job, MediaInfo.of(item["source"]["media"]))
        stored = self.store_pictures(job, [result.sheet])
        cues = result.cues.encode()
        url = self.store(job, "storyboard.vtt", cues, "text/vtt; charset=utf-8")
        stored["storyboard.vtt"] = {"url": url, "fileSize": len(cues)}
        chapters: list[Item] = [
            {"start": each.start} | ({"title": each.title} if each.title else {}) for each in result.chapters
        ]
        return _apply_pictures(stored, {PROPOSED: chapters} if chapters else {})


class CaptionsWorker(ThumbnailWorker):
    """Worker that extracts the subtitles of a source file as captions."""

    kind = "captions"

    def __init__(
        self, objects: Objects, reader: Sandbox, bucket: str, captions: EmbeddedCaptionStore, clock: Callable[[], float]
    ) -> None:
        super().__init__(objects, reader, bucket)
        self._captions = captions
        self._clock = clock

    def do(self, job: "Job", _: "Video") -> JobResult:
        """Store the subtitles as objects. One transaction then writes the captions, which refer to the objects, and completes the job."""
        found: Subtitles = self.read("subtitles", job, MAX_BYTES, MAX_CUES)
        texts, skipped = extract_texts(found.tracks)
        for text in texts:
            key = text_key(job["videoId"], text_hash(text.content))
            self.objects.put(self.bucket, key, text.content, f"{TYPE}; charset=utf-8")
        writer = for_job(Caller.job(NAME), job)

        def placing(video_item: "Video") -> ExtraWrites:
            placed = self._captions.caption_writes(texts, video_item, writer, int(self._clock()))
            return placed._replace(output=placed.output | {"skipped": [*skipped, *placed.output["skipped"]]})

        return JobResult({}, lambda video_item: video_item, placing)


def make(settings: ThumbnailsSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table, objects, bucket = resources.table(settings.table_name), resources.objects, settings.media_bucket
    reader = Sandbox.within(settings.aws_lambda_function_memory_size)
    workers = (
        PosterWorker(objects, reader, bucket),
        StoryboardWorker(objects, reader, bucket),
        CaptionsWorker(objects, reader, bucket, EmbeddedCaptionStore(table), resources.clock),
    )
    return JobConsumer(NAME, JobStore(table), resources.clock, workers).function()


lambda_handler = EntryPoint(ThumbnailsSettings, make, resources=BackgroundResources)
