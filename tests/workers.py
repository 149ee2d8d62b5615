"""Functions that process source files, with moto's S3 and the table."""

from typing import Any

from functions.probe import handler as probe
from functions.thumbnails import handler as thumbnails
from local.testbed.background import BackgroundWork
from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Context, FakeResources
from local.testbed.streams import sqs_event
from shared.aws.s3 import Objects

LADDER = ("720p", "240p")


class ProcessingWorkers:
    """The probe and thumbnails functions, and methods that upload source files for them."""

    def __init__(self, api: Api, background: BackgroundWork, objects: Objects) -> None:
        self.api = api
        self.background = background
        self.objects = objects
        self.restart()

    def restart(self) -> None:
        """Start both functions again, without cached state."""
        resources = FakeResources(self.api.table, self.background.clock, objects=self.objects)
        self.handlers = {
            "probe": resources.make(probe.lambda_handler, RENDITIONS=",".join(LADDER)),
            "thumbnails": resources.make(thumbnails.lambda_handler),
        }

    def upload(self, data: bytes, video_id: str | None = None, upload: str = "0001") -> str:
        """Store a source file as an upload does, and deliver its arrival to the router. Return the video's id."""
        video_id = video_id or str(self.api.create()["videoId"])
        key = f"{video_id}/{upload}"
        etag = self.objects.client.put_object(Bucket=SOURCES_BUCKET, Key=key, Body=data)["ETag"].strip('"')
        self.background.arrive(video_id, upload=upload, etag=etag, size=len(data))
        return video_id

    def deliver(self, queue: str, *bodies: dict[str, Any]) -> dict[str, Any]:
        """Deliver these messages to a function, as Lambda does. Without messages, deliver those in its queue."""
        waiting = bodies or self.background.queues[queue].take()
        response = self.handlers[queue](sqs_event(*waiting), Context())
        self.background.settle()
        return response

    def work(self) -> None:
        """Deliver the messages in the queues of both functions."""
        for queue in self.handlers:
            assert self.deliver(queue) == {"batchItemFailures": []}

    def document(self, video_id: str) -> dict[str, Any]:
        """Return the video as its owner sees it."""
        video: dict[str, Any] = self.api.get(f"/v1/videos/{video_id}").json
        return video

    def picture(self, uri: str) -> bytes:
        """Return the bytes of a thumbnail."""
        key = uri.removeprefix("https://pictures.example/")
        return self.objects.client.get_object(Bucket=MEDIA_BUCKET, Key=key)["Body"].read()
