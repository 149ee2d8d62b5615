"""Mock of the API for the console: each operation responds with sample data, or with its example in the OpenAPI document.

It stores nothing and starts no service. A test validates the sample data against the document's schemas.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qs

from local.sample_videos import SCENES, SECONDS
from shared.openapi.document import document
from shared.questions.saved import QUESTIONS

State = Literal["full", "empty", "failing"]
"""State of the mock: sample data, lists without items, or status 503 for every request."""
Query = Mapping[str, list[str]]
Sample = Callable[[Mapping[str, str], Query], Any]
"""Function of the path parameters and the query, which returns a response body. It may raise NotPlayable."""

OWNER = "alice"
DAY = 86_400
SEARCHED = "water"
"""Word that the captions of three sample videos contain."""
UNAVAILABLE = {
    "type": "urn:video-metadata:problem:unavailable",
    "title": "Service unavailable",
    "status": 503,
    "detail": "The service is overloaded. Try again in a few seconds.",
}


QUESTION_VALUES = {"string": "value of row {}", "date": "2026-06-01", "timestamp": "2026-06-09 00:00:0{}"}
"""Templates of the values in the results of questions, by type. The number of the row replaces `{}`."""


@dataclass(frozen=True)
class Reply:
    """Response of the mock: status, media type and body."""

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True)
class Operation:
    """Operation of the OpenAPI document: id, method, path, and the example of its successful response."""

    name: str
    method: str
    path: re.Pattern[str]
    status: int
    kind: str
    example: Any


@cache
def operations() -> tuple[Operation, ...]:
    """Return the operations of the OpenAPI document; paths without parameters come first."""
    found = []
    for path, methods in sorted(document()["paths"].items(), key=lambda entry: entry[0].count("{")):
        pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
        for method, operation in methods.items():
            status, response = next(item for item in sorted(operation["responses"].items()) if item[0].startswith("2"))
            contents: dict[str, dict[str, Any]] = response.get("content", {})
            kind, content = next(iter(contents.items()), ("", dict[str, Any]()))
            examples = (
                [content["example"]]
                if "example" in content
                else [example["value"] for example in content.get("examples", {}).values()]
            )
            example = examples[0] if examples else None
            found.append(Operation(operation["operationId"], method.upper(), pattern, int(status), kind, example))
    return tuple(found)


def question_run(name: str, query: Query) -> dict[str, Any]:
    """Return a finished run of a saved question, with eight rows."""
    kinds = QUESTIONS[name].columns.values()
    rows = [
        [900 - 99 * row if kind == "bigint" else QUESTION_VALUES[kind].format(row) for kind in kinds]
        for row in range(8)
    ]
    return {
        "runId": "9d2f0e6c-1c5b-4b53-8a43-6f2b1f0d7c11",
        "question": name,
        "from": query.get("from", ["2026-06-01"])[0],
        "to": query.get("to", ["2026-06-30"])[0],
        "state": "succeeded",
        "error": None,
        "rows": rows,
        "more": False,
        "bytes": 20_000_000,
        "dollars": 0.0001,
    }


class NotPlayable(Exception):
    """Response to a request for the playback of a video that cannot be played. The message is the detail of the
    problem."""


@dataclass
class MockApi:
    """Mock of the API. `state` applies to all requests until it is changed."""

    origin: str
    """Origin of the mock, from which the sample data load images and videos."""
    now: float = field(default_factory=time.time)
    """Current time in epoch seconds, on which the times of the sample data depend."""
    state: State = "full"

    def respond(self, method: str, path: str, query: str = "") -> Reply:
        """Return the response to a request. Raises LookupError if the document has no such operation."""
        if self.state == "failing":
            return Reply(503, "application/problem+json", json.dumps(UNAVAILABLE).encode())
        operation, parameters = find(method, path)
        try:
            body = self.body(operation, parameters, parse_qs(query))
        except NotPlayable as error:
            problem = {"type": "urn:video-metadata:problem:not-playable", "title": "Not playable", "status": 409}
            return Reply(409, "application/problem+json", json.dumps(problem | {"detail": str(error)}).encode())
        if body is None or operation.status == 204:
            return Reply(204, "", b"")
        return Reply(
            operation.status, operation.kind, body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )

    def body(self, operation: Operation, parameters: Mapping[str, str], query: Query) -> Any:
        """Return the response body of an operation: the sample data, or else the document's example."""
        sample = self.samples().get(operation.name)
        body = sample(parameters, query) if sample else None
        body = operation.example if body is None else body
        if self.state == "empty" and isinstance(body, dict) and "items" in body:
            return body | {"items": []} | ({"total": 0, "facets": {}} if "facets" in body else {})
        return body

    def samples(self) -> dict[str, Sample]:
        """Return the functions of the sample data by operation id."""
        return {
            "listVideos": lambda _, query: self._page(self._listed(query)),
            "getVideo": lambda path, _: self._video(_place(path["videoId"])),
            "patchVideo": lambda path, _: self._video(_place(path["videoId"])),
            "batchGetVideos": lambda *_: {"items": [], "missing": [], "remaining": []},
            "listChanges": lambda *_: {"items": [], "nextCursor": "bm93", "caughtUp": True},
            "searchVideos": lambda *_: self._found(),
            "similarVideos": lambda *_: {
                "items": [{"video": self._summary(place), "score": 12.5 - place} for place in (1, 4, 6)],
                "complete": True,
                "asOf": self._milliseconds(0),
            },
            "listQuestions": lambda *_: {"items": [saved.document(name) for name, saved in QUESTIONS.items()]},
            "runQuestion": lambda path, query: question_run(path["question"], query) | {"state": "queued", "rows": []},
            "getQuestionRun": lambda path, query: question_run(path["question"], query),
            "listTop": lambda *_: self._top(),
            "listTags": lambda *_: self._page([{"tag": tag, "count": count} for tag, count in TAGS]),
            "getUser": lambda path, _: {
                "userId": path["userId"],
                "videos": {"total": 8, "uploaded": 0, "processing": 1, "ready": 6, "failed": 1, "deleted": 2},
                "bytes": 733_007_751,
                "duration": 5_520_000,
                "playlists": 3,
            },
            "listPlaylists": lambda *_: self._page([self._playlist(place) for place in range(3)]),
            "listVideoPlaylists": lambda *_: self._page([self._playlist(0), self._playlist(1)]),
            "getPlaylist": lambda *_: self._playlist(0),
            "listEntries": lambda *_: self._page(
                [
                    {"videoId": video_id(place), "addedAt": self._seconds(place), "video": self._summary(place)}
                    for place in (0, 4, 6, 1)
                ]
            ),
            "listJobs": lambda path, _: {"items": self._jobs(_place(path["videoId"]))},
            "getPlayback": lambda path, _: self._playback(_place(path["videoId"])),
            "getViews": lambda path, _: self._views(path["videoId"]),
            "listCredits": lambda path, _: self._page(
                [
                    {
                        "videoId": path["videoId"],
                        "personId": f"nm{number:07}",
                        "name": name,
                        "ordering": number,
                        "roles": [{"category": role, "characters": []}],
                        "version": 1,
                        "updatedAt": self._seconds(2),
                    }
                    for number, (name, role) in enumerate(PEOPLE, 1)
                ]
            ),
            "listAudit": lambda path, _: self._page(self._audit(path["videoId"])),
            "listWebhooks": lambda *_: self._page([self._webhook(place) for place in range(3)]),
            "getWebhook": lambda *_: self._webhook(0),
            "listDeliveries": lambda *_: self._page(
                [
                    {
                        "at": self._milliseconds(0.02 * place),
                        "changeId": f"vq2wEZ4yX0mTnUo8s1J{place}",
                        "type": "video.changed" if place else "video.created",
                        "videoId": video_id(place),
                        "status": 503 if place == 1 else 204,
                        "ms": 48 + 7 * place,
                        "attempt": 1,
                        **({"answer": "Try again later."} if place == 1 else {}),
                    }
                    for place in range(5)
                ]
            ),
            "createUpload": lambda path, _: self._upload_plan(path["videoId"]),
        }

    def _seconds(self, days: float) -> int:
        """Return the time a number of days ago, in epoch seconds."""
        return int(self.now - days * DAY)

    def _milliseconds(self, days: float) -> int:
        return self._seconds(days) * 1000

    @staticmethod
    def _page(items: list[Any]) -> dict[str, Any]:
        return {"items": items, "nextCursor": None}

    def _listed(self, query: Query) -> list[dict[str, Any]]:
        """Return the videos of a list. A list by status has only the videos with this status."""
        status = query.get("status", [""])[0]
        return [video for video in map(self._summary, range(len(SCENES))) if status in ("", video["status"])]

    def _summary(self, place: int) -> dict[str, Any]:
        scene = SCENES[place]
        status = UNREADY[place][0] if place in UNREADY else "ready"
        return {
            "videoId": video_id(place),
            "userId": OWNER,
            "createdAt": self._seconds(0.1 + 1.7 * place),
            "title": scene.title,
            "duration": (37 + 311 * place) * 1000,
            "format": "mp4",
            "category": scene.category,
            "status": status,
            "visibility": "private" if place == 4 else "public",
            "viewCount": 0 if status != "ready" else 1240 - 93 * place,
            **({"poster": self._image(place)} if place not in UNREADY else {}),
        }

    def _video(self, place: int) -> dict[str, Any]:
        summary, scene = self._summary(place), SCENES[place]
        summary.pop("poster", None)
        status = summary["status"]
        picture = {"url": self._image(place), "width": 640, "height": 360, "fileSize": 9_000, "time": 3_000}
        return summary | {
            "updatedAt": self._seconds(0.05),
            "description": scene.description,
            "fileSize": 75_402_112,
            "resolution": "1920x1080",
            "videoCodec": "h264",
            "audioCodec": "aac",
            "frameRate": 23.976,
            "tags": list(scene.tags),
            "language": "en-NZ",
            "origins": {
                "duration": "job",
                "fileSize": "job",
                "format": "job",
                "resolution": "job",
                "videoCodec": "person",
            },
            "resolutions": {
                name: f"s3://media/renditions/{summary['videoId']}/{name}.mp4" for name in ("240p", "480p", "720p")
            },
            "renditions": {"240p": {"size": 4_100_000}, "480p": {"size": 9_800_000}, "720p": {"size": 22_500_000}},
            "metadata": {"camera": "Alexa 35", "takes": 4, "graded": True},
            "thumbnails": {"poster": picture, "poster-320.webp": picture} if place not in UNREADY else {},
            "source": {
                "uploadId": upload_id(place),
                "contentType": "video/mp4",
                "fileSize": 75_402_112,
                "arrivedAt": self._seconds(0.09 + 1.7 * place),
            },
            **(
                {"failure": {"job": "probe", "reason": "The file is not a video.", "at": self._seconds(1)}}
                if status == "failed"
                else {}
            ),
            "version": 3,
            "schemaVersion": 3,
        }

    def _image(self, place: int) -> str:
        return f"{self.origin}/media/{place}.webp"

    def _playback(self, place: int) -> dict[str, Any]:
        if place in UNREADY:
            raise NotPlayable(UNREADY[place][1])
        picture = {"url": self._image(place), "width": 640, "height": 360, "fileSize": 9_000, "time": 3_000}
        return {
            "videoId": video_id(place),
            "duration": SECONDS * 1000,
            "expiresAt": self._seconds(-1),
            "renditions": [
                {
                    "name": "720p",
                    "type": "video/mp4",
                    "width": 640,
                    "height": 360,
                    "size": 225_000,
                    "bitRate": 225_000,
                    "url": f"{self.origin}/media/{place}.mp4",
                }
            ],
            "captions": [{"language": "en", "type": "text/vtt", "url": f"{self.origin}/media/{place}.vtt"}],
            "chapters": [{"start": 0, "title": "The harbour"}, {"start": 4_000, "title": "Out at sea"}],
            "poster": picture,
        }

    def _found(self) -> dict[str, Any]:
        spoken = [(place, text) for place, scene in enumerate(SCENES) for text in scene.said if SEARCHED in text]
        items = [
            {
                "video": self._summary(place),
                "score": 41.2 - place,
                "highlights": [{"field": "title", "text": SCENES[place].title, "ranges": []}],
                "quote": {
                    "language": "en",
                    "start": 1000,
                    "text": text,
                    "ranges": [[text.index(SEARCHED), text.index(SEARCHED) + len(SEARCHED)]],
                },
            }
            for place, text in spoken
        ]
        facets = {
            "category": [{"value": "nature", "count": 2}, {"value": "travel", "count": 1}],
            "tag": [{"value": "sea", "count": 3}, {"value": "summer", "count": 1}],
        }
        return {
            "items": items,
            "total": len(items),
            "facets": facets,
            "complete": True,
            "asOf": self._milliseconds(0),
            "nextCursor": None,
        }

    def _top(self) -> dict[str, Any]:
        items = []
        for place in (1, 0, 2, 4, 6):
            video = self._summary(place)
            items.append(video | {"views": 420 - 60 * place, "viewsBefore": 300, "rise": 120 - 60 * place})
        return {
            "window": "day",
            "category": None,
            "from": self._seconds(1),
            "computedAt": self._seconds(0.003),
            "items": items,
        }

    def _playlist(self, place: int) -> dict[str, Any]:
        title, description, visibility = (
            ("By the sea", "Shores, ferries and lagoons, from the oldest to the latest.", "public"),
            ("Winter", "", "private"),
            (
                "For the festival",
                "The short list of the jury, with notes of all meetings in the order of the votes.",
                "private",
            ),
        )[place]
        return {
            "playlistId": f"6fa459ea-ee8a-4ca4-894e-db77e160355{place}",
            "userId": OWNER,
            "title": title,
            **({"description": description} if description else {}),
            "visibility": visibility,
            "createdAt": self._seconds(20),
            "updatedAt": self._seconds(0.2 + place),
            "entryCount": 4 - place,
            "version": 2,
        }

    def _jobs(self, place: int) -> list[dict[str, Any]]:
        status = self._summary(place)["status"]
        kinds = (
            ["probe"] if status == "failed" else ["probe", "poster", "storyboard", "transcode.480p", "transcode.720p"]
        )
        jobs = []
        for number, kind in enumerate(kinds):
            state = "failed" if status == "failed" else "done"
            if status == "processing" and number > 2:
                state = "running" if number == 3 else "queued"
            times = {"queuedAt": self._seconds(1), "updatedAt": self._seconds(0.9)}
            jobs.append(
                {
                    "videoId": video_id(place),
                    "kind": kind,
                    "state": state,
                    "attempts": 1,
                    "attempt": 1,
                    "progress": 40 if state == "running" else 0 if state == "queued" else 100,
                    "inputHash": "9f86d081884c7d659a2feaa0c55ad015",
                    **times,
                    **(
                        {
                            "error": {
                                "reason": "The file is not a video.",
                                "at": self._seconds(1),
                                "attempt": 1,
                                "final": True,
                            }
                        }
                        if state == "failed"
                        else {}
                    ),
                }
            )
        return jobs

    def _views(self, video: str) -> dict[str, Any]:
        counts = [3, 9, 14, 8, 22, 31, 27, 40, 38, 52, 47, 61, 58, 74]
        days = len(counts)
        items = [
            {
                "from": self._seconds(days - day),
                "to": self._seconds(days - day - 1),
                "views": count,
                "watchedMs": count * 90_000,
            }
            for day, count in enumerate(counts)
        ]
        return {"videoId": video, "granularity": "day", "tz": "UTC", "items": items, "total": sum(counts)}

    def _audit(self, video: str) -> list[dict[str, Any]]:
        person = {"kind": "person", "id": OWNER}
        entries: list[dict[str, Any]] = [
            {
                "entity": "video",
                "action": "changed",
                "by": person,
                "version": 3,
                "changes": [
                    {
                        "field": "/description",
                        "from": "An hour at the shore.",
                        "to": "An hour at the shore, in eight seconds.",
                    },
                    {"field": "/title", "from": "Tide", "to": "Low tide"},
                ],
            },
            {
                "entity": "job",
                "kind": "poster",
                "action": "done",
                "by": {"kind": "job", "id": "job:poster"},
                "attempt": 1,
                "changes": [{"field": "/state", "from": "running", "to": "done"}],
            },
            {
                "entity": "job",
                "kind": "probe",
                "action": "done",
                "by": {"kind": "job", "id": "job:probe"},
                "attempt": 1,
                "changes": [{"field": "/state", "from": "running", "to": "done"}],
            },
            {
                "entity": "video",
                "action": "created",
                "by": person,
                "version": 1,
                "changes": [{"field": "/title", "to": "Tide"}, {"field": "/visibility", "to": "private"}],
            },
        ]
        return [
            {
                "sequence": f"{99 - place:021}",
                "videoId": video,
                "correlationId": f"JKJb{place}",
                "at": self._milliseconds(0.05 + place),
            }
            | entry
            for place, entry in enumerate(entries)
        ]

    def _webhook(self, place: int) -> dict[str, Any]:
        more: list[dict[str, Any]] = [
            {"description": "The search index"},
            {
                "failures": 3,
                "behindSince": self._milliseconds(0.1),
                "nextAttemptAt": self._seconds(-0.02),
                "types": ["video.created"],
            },
            {"description": "Newsletter", "paused": True, "pausedBecause": "The receiver responded with 410 Gone."},
        ]
        return {
            "webhookId": f"0b7e4a52-58c1-4b7e-9d61-2f3c8a9d1e4{place}",
            "userId": OWNER,
            "url": f"https://example.com/hooks/{place}",
            "types": ["video.*", "playlist.*"],
            "follows": OWNER,
            "paused": False,
            "createdAt": self._seconds(30),
            "updatedAt": self._seconds(3),
            "version": 2,
        } | more[place]

    def _upload_plan(self, video: str) -> dict[str, Any]:
        size, upload = 30_000_000, upload_id(0)
        # The storage responds only to the first part. Several parts without a response would use all connections that
        # the browser opens.
        sizes = {1: size, 2: 3 * size}
        parts = [
            {"partNumber": part, "method": "PUT", "size": sizes[part], "url": f"{self.origin}/storage/{video}/{part}"}
            for part in sizes
        ]
        return {
            "uploadId": upload,
            "partSize": size,
            "parts": parts,
            "complete": f"upload/{upload}/complete",
            "abort": f"upload/{upload}",
            "expiresAt": self._seconds(-1),
        }


UNREADY = {
    3: ("processing", "Creating the rendition 720p is running (40 %, attempt 1 of 5)."),
    5: ("failed", "The file is not a video."),
}
"""Status of the sample videos that are not ready, and the reason, by the index in `SCENES`. They have no poster."""
TAGS = (("sea", 3), ("summer", 2), ("night", 2), ("winter", 2), ("morning", 1))
PEOPLE = (("Ada Mason", "director"), ("Ilse Brandt", "cinematographer"), ("Tomi Okafor", "editor"))


def video_id(place: int) -> str:
    """Return the id of the sample video with this index in `SCENES`."""
    return f"3f2504e0-4f89-41d3-9a0c-0305e82c330{place:x}"


def upload_id(place: int) -> str:
    """Return the id of the upload of the sample video with this index in `SCENES`."""
    return f"019775a1c00-9f86d081884c7d6{place:x}"


def find(method: str, path: str) -> tuple[Operation, dict[str, str]]:
    """Return the operation of a request, and its path parameters. Raises LookupError if the document has none."""
    for operation in operations():
        match = operation.path.fullmatch(path)
        if match and operation.method == method:
            return operation, match.groupdict()
    raise LookupError(f"{method} {path} is not in the OpenAPI document.")


def _place(video: str) -> int:
    """Return the index in `SCENES` of the sample video with this id. For other ids, the index is arbitrary."""
    return int(video[-1], 16) % len(SCENES)
