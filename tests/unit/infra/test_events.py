"""`python -m local.events` generates the files in `events/`, and each event has its documented effect."""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import jsonschema_rs
import pytest
from moto import mock_aws

from functions.aggregates import handler as aggregates
from functions.arrivals import handler as arrivals
from functions.audit import handler as audit
from functions.compactor import handler as compactor
from functions.console import handler as console
from functions.deliveries import handler as deliveries
from functions.indexer import handler as indexer
from functions.probe import handler as probe
from functions.purge import handler as purge
from functions.rankings import handler as rankings
from functions.reverts import handler as reverts
from functions.stream_router import handler as stream_router
from functions.sweeper import handler as sweeper
from functions.tallies import handler as tallies
from functions.thumbnails import handler as thumbnails
from infra.console import ROUTES as CONSOLE_ROUTES
from infra.jobs_stack import AUDIT_FILTERS, ROUTER_FILTERS
from infra.site import bundle_site
from local import events, example_data, http_events
from local.events import EVENTS, examples
from local.testbed.background import FakeQueue
from local.testbed.harness import (
    MEDIA_BUCKET,
    NOW,
    SOURCES_BUCKET,
    Clock,
    Context,
    FakeResources,
    create_audit_table,
    create_table,
    make_api,
)
from shared.aws.dynamodb import Table, make_client
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.core.attributes import Item, decode_item
from shared.core.periods import hour_of
from shared.core.settings import LambdaHandler
from shared.openapi.document import document
from shared.routes import ROUTES
from shared.schema import (
    AUDIT_TABLE_NAME,
    CREDIT,
    JOB,
    MEMBERSHIP,
    PROFILE,
    TABLE_NAME,
    TAG_COUNT,
    VIDEO,
    VIEW_COUNTER,
    VIEW_HOUR,
)
from shared.web.requests import JSON
from shared.web.responses import PROBLEM as PROBLEM_TYPE

ARCHIVE_BUCKET, ANALYTICS_BUCKET = "archive", "analytics"
CONFIG = {
    "issuer": "https://issuer.example",
    "clientId": "console",
    "scopes": "videos/read",
    "media": ["https://media.example"],
}
EXAMPLES = {f"{example.function}/{example.name}": example for example in examples()}


class LongContext(Context):
    """Context of an invocation with five minutes left, the longest timeout of a function."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 300_000


@dataclass
class Service:
    """All functions over the seeded example data."""

    table: Table
    objects: Objects
    handlers: Mapping[str, LambdaHandler]
    queues: Mapping[str, FakeQueue]

    def invoke(self, name: str) -> dict[str, Any]:
        """Return a function's response to the event of a file."""
        event = json.loads(EXAMPLES[name].path.read_text(encoding="utf-8"))
        return self.handlers[EXAMPLES[name].function](event, LongContext())

    def take_messages(self) -> dict[str, list[dict[str, Any]]]:
        """Return the messages sent to the queues since the last call."""
        return {name: sent for name, queue in self.queues.items() if (sent := queue.take())}

    def seed(self) -> None:
        """Restore the example data."""
        example_data.seed(self.table, self.objects.client, NOW)


@dataclass
class Outcome:
    """Outcome of all events, delivered in the order of their files."""

    responses: dict[str, dict[str, Any]]
    sent: dict[str, dict[str, list[dict[str, Any]]]]
    """Messages sent by each event, by queue."""
    items: dict[tuple[str, str], Item]
    """Items in the table afterwards, by key."""
    entries: list[Item]
    """Entries of the audit trail afterwards, in order."""
    later: list[dict[str, Any]]
    """Statuses of HTTP responses, and other results, of two more rounds. Each round starts with the restored example
    data, and has another order of events."""

    def video(self, video_id: str) -> Item:
        """Return a video."""
        return self.item(VIDEO.key(videoId=video_id)) or {}

    def job(self, video_id: str, kind: str) -> Item:
        """Return a job."""
        return self.item(JOB.key(videoId=video_id, kind=kind)) or {}

    def item(self, key: Mapping[str, str]) -> Item | None:
        """Return any item, or `None`."""
        return self.items.get((key["pk"], key["sk"]))

    def trail(self, video_id: str) -> list[tuple[Any, ...]]:
        """Return entity, action and author of a video's audit entries."""
        return [
            (entry["entity"], entry["action"], entry["by"]["id"])
            for entry in self.entries
            if entry.get("videoId") == video_id
        ]


@contextmanager
def _seeded() -> Iterator[Service]:
    with (
        mock_aws(),
        TemporaryDirectory() as folder,
        mock.patch.object(indexer, "own_folder", return_value=Path(folder)),
    ):
        client, clock = make_client(), Clock()
        create_table(client, TABLE_NAME)
        create_audit_table(client, AUDIT_TABLE_NAME)
        table, objects = Table(TABLE_NAME, client, sleep=lambda _: None), Objects(make_s3_client())
        for bucket in (MEDIA_BUCKET, SOURCES_BUCKET, ARCHIVE_BUCKET, ANALYTICS_BUCKET):
            objects.client.create_bucket(Bucket=bucket)
        queues: defaultdict[str, FakeQueue] = defaultdict(FakeQueue)
        resources = FakeResources(table, clock, objects=objects, queues=queues)
        background_handlers: dict[str, LambdaHandler] = {
            "stream_router": resources.make(stream_router.lambda_handler),
            "audit": resources.make(audit.lambda_handler),
            "deliveries": resources.make(deliveries.lambda_handler),
            "arrivals": resources.make(arrivals.lambda_handler),
            "probe": resources.make(probe.lambda_handler, RENDITIONS=example_data.RENDITION),
            "thumbnails": resources.make(thumbnails.lambda_handler),
            "purge": resources.make(purge.lambda_handler),
            "reverts": resources.make(reverts.lambda_handler),
            "aggregates": resources.make(aggregates.lambda_handler),
            "tallies": resources.make(tallies.lambda_handler),
            "sweeper": resources.make(sweeper.lambda_handler),
            "rankings": resources.make(rankings.lambda_handler),
            "indexer": resources.make(indexer.lambda_handler),
            "compactor": resources.make(compactor.lambda_handler),
            "console": console.lambda_handler,
        }
        service = Service(table, objects, {**make_api(table, clock, objects).handlers, **background_handlers}, queues)
        service.seed()
        yield service


@pytest.fixture(scope="module")
def console_is_deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set the files and the environment variables of the console's function."""
    asset = tmp_path_factory.mktemp("console")
    bundle_site(asset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "SITE", asset / "functions" / "console" / "site")
        patch.setenv("CONFIG", json.dumps(CONFIG))
        patch.setenv("CONNECT_ORIGINS", "https://issuer.example")
        yield


@pytest.fixture(scope="module")
def outcome(console_is_deployed: None) -> Outcome:
    """Return the outcome of all events. All tests share it, because moto takes seconds to process the events."""
    with _seeded() as service:
        responses, sent = {}, {}
        for name in EXAMPLES:
            responses[name] = service.invoke(name)
            sent[name] = service.take_messages()
        items, entries = _all(service.table, TABLE_NAME), _all(service.table, AUDIT_TABLE_NAME)
        later = []
        for names in (reversed(EXAMPLES), EXAMPLES):
            service.seed()
            repeated = {name: service.invoke(name) for name in names}
            later.append({name: response.get("statusCode", response) for name, response in repeated.items()})
    by_key = {(item["pk"], item["sk"]): item for item in items}
    return Outcome(responses, sent, by_key, sorted(entries, key=lambda entry: str(entry["sk"])), later)


def _all(table: Table, name: str) -> list[Item]:
    items: Any = table.client.scan(TableName=name)["Items"]
    return [decode_item(item) for item in items]


# --- The files ------------------------------------------------------------------------------------------------------


def test_event_files_are_the_output_of_their_script() -> None:
    assert events.main(["--check"]) == 0, "run: python -m local.events"


def test_stale_missing_and_unused_files_are_detected_and_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS", tmp_path)
    assert events.main(["--check"]) == 1
    events.main([])
    assert events.main(["--check"]) == 0
    (tmp_path / "videos" / "get-video.json").write_text("{}")
    assert events.main(["--check"]) == 1
    events.main([])
    (tmp_path / "videos" / "old.json").write_text("{}")
    assert events.main(["--check"]) == 1
    events.main([])
    assert events.main(["--check"]) == 0


def test_every_function_and_route_has_an_event() -> None:
    functions = {path.parent.name for path in (EVENTS.parent / "functions").glob("*/handler.py")}
    assert {example.function for example in EXAMPLES.values()} == functions
    keys = {example.event.get("routeKey") for example in EXAMPLES.values()} - {None}
    assert keys == {route.key for route in ROUTES} | {"$default"} | {f"GET {path}" for path in CONSOLE_ROUTES.values()}


def test_no_two_events_share_a_file() -> None:
    assert len(EXAMPLES) == len(examples())


def test_events_contain_no_person_and_no_real_account() -> None:
    everything = "".join(path.read_text(encoding="utf-8") for path in EVENTS.rglob("*.json"))
    assert set(re.findall(r"(?<![0-9a-f-])\d{12}(?![0-9a-f-])", everything)) <= {http_events.ACCOUNT}
    assert set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", everything)) == {"192.0.2.10"}  # for documentation (RFC 5737)
    assert not re.search(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b|[\w.]+@[\w.]+", everything)


@pytest.mark.parametrize(("function", "filters"), [("stream_router", ROUTER_FILTERS), ("audit", AUDIT_FILTERS)])
def test_stream_records_match_the_filters_of_their_function(
    function: str, filters: tuple[Mapping[str, Any], ...]
) -> None:
    records = [
        record for example in EXAMPLES.values() if example.function == function for record in example.event["Records"]
    ]
    for record in records:
        assert any(_matches(record, pattern) for pattern in filters), record["dynamodb"]["Keys"]


def _matches(value: Any, pattern: Any) -> bool:
    """Return whether a part of a record matches the pattern of an event source mapping's filter."""
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and _matches(value[name], pattern[name]) for name in pattern
        )
    return any(_matches_alternative(value, alternative) for alternative in pattern)


def _matches_alternative(value: Any, alternative: Any) -> bool:
    if not isinstance(alternative, Mapping):
        return bool(value == alternative)
    if "anything-but" in alternative:
        return value not in alternative["anything-but"]
    return str(value).startswith(alternative["prefix"])


# --- Requests -------------------------------------------------------------------------------------------------------

PROBLEM = "urn:video-metadata:problem:"
PARTIAL_RESPONSE: dict[str, Any] = {
    "console/get-console-file-absent": {"type": f"{PROBLEM}not-found"},
    "console/get-console-file-configuration": CONFIG,
    "history/get-changeset-absent": {"type": f"{PROBLEM}not-found"},
    "history/get-diff-of-no-version": {"type": f"{PROBLEM}not-found"},
    "history/get-diff": {"videoId": example_data.REGATTA, "from": 1, "to": 1, "changes": []},
    "history/get-revert-absent": {"detail": "The revert does not exist."},
    "history/list-changes-from-now-on": {"items": [], "caughtUp": True},
    "history/list-changes-of-everybody": {"type": f"{PROBLEM}forbidden"},
    "history/list-audit": {
        "items": [{"action": action} for action in ("created", "changed", "deleted", "created", "removed")]
    },
    "history/list-audit-of-removed": {"items": [{"action": action} for action in ("removed", "expired")]},
    "history/list-playlist-audit": {"nextCursor": None},
    "jobs/choose-thumbnail": {"videoId": example_data.FAILED, "kind": "poster", "position": 7500},
    "jobs/list-jobs": {"items": [{"kind": kind} for kind in ("poster", "probe", "storyboard", "transcode.240p")]},
    "jobs/report-rendition": {"state": "running", "progress": 40, "attempt": example_data.LAST_TRY},
    "jobs/retry-job": {"kind": "transcode.240p", "state": "queued", "attempt": 2},
    "jobs/why-not-ready": {"ready": False, "status": "processing"},
    "playback/get-playback": {"whyHidden": "The video is processing. GET .../why-not-ready gives the reason."},
    "playback/get-playback-nothing-to-play": {"type": f"{PROBLEM}not-playable"},
    "playlists/append-entry": {"videoId": example_data.AWAITED},
    "captions/get-chapters": {"chapters": [{"start": 0}, {"start": 240_000}]},
    "captions/list-captions": {"items": [{"language": "de"}, {"language": "en"}]},
    "captions/put-captions": {"type": f"{PROBLEM}invalid-content", "errors": [{"line": 3}]},
    "captions/put-chapters": {"version": 2, "chapters": [{"title": "The whole day"}]},
    "playlists/create-playlist": {"title": "Boats", "userId": "alice", "entryCount": 0},
    "playlists/get-playlist": {"playlistId": example_data.EVENING, "title": "This evening"},
    "playlists/list-entries": {
        "items": [{"videoId": video} for video in (example_data.HARBOUR, example_data.REGATTA, example_data.UNWANTED)]
    },
    "playlists/list-playlists": {"items": [{"playlistId": example_data.EVENING}, {"playlistId": example_data.MORNING}]},
    "playlists/list-video-playlists": {"items": [{"playlistId": example_data.EVENING}]},
    "playlists/move-entry": {"videoId": example_data.REGATTA},
    "playlists/patch-playlist": {"description": "With tea."},
    "search/search-videos": {"facets": {}, "nextCursor": None},
    "search/search-videos-no-words": {"type": f"{PROBLEM}invalid-parameter", "errors": [{"parameter": "q"}]},
    "search/similar-videos": {"items": []},
    "public/default-method-not-allowed": {"type": f"{PROBLEM}method-not-allowed"},
    "public/default-not-found": {"type": f"{PROBLEM}not-found"},
    "public/get-health": {"status": "ok"},
    "public/get-open-api": {"openapi": "3.1.1"},
    "ratings/get-rating": {"average": 8.0, "votes": 1},
    "ratings/put-rating": {"own": {"value": 9}, "average": 8.5, "votes": 2},
    "relations/get-credit": {"personId": example_data.PERSON, "name": "Ada Mason"},
    "relations/get-release": {"region": "NZ", "language": "mi"},
    "relations/list-credits": {"items": [{"personId": "nm0000001"}, {"personId": "nm0000002"}]},
    "relations/list-person-videos": {"items": [{"video": {"videoId": example_data.HARBOUR}, "releaseYear": 2025}]},
    "relations/list-region-releases": {"items": [{"region": "NZ"}, {"region": "NZ"}]},
    "relations/list-releases": {"items": [{"region": region} for region in ("AU", "CA", "NZ", "NZ")]},
    "relations/put-credit": {"personId": "nm0000003", "name": "Grace Field", "version": 1},
    "relations/put-region-release": {"region": "DE", "version": 1},
    "relations/put-release": {"region": "CH", "language": "de-CH", "version": 1},
    "totals/get-user": {"userId": "alice", "playlists": 2},
    "totals/get-user-of-another": {"type": f"{PROBLEM}forbidden"},
    "totals/list-folders": {"items": []},
    "totals/get-folder": {"folder": "harbour/2025", "videos": 0, "direct": 0, "items": []},
    "totals/get-folder-of-another": {"type": f"{PROBLEM}forbidden"},
    "history/get-folder-move-absent": {"type": f"{PROBLEM}not-found"},
    "undo/move-folder-absent": {"type": f"{PROBLEM}not-found"},
    "totals/list-tags": {"items": [{"tag": "harbour"}, {"tag": "boats"}]},
    "totals/list-top": {"window": "week", "category": "world", "items": []},
    "uploads/complete-upload": {"uploadId": example_data.upload_id(3), "state": "received"},
    "uploads/create-upload": {"method": "PUT"},
    "uploads/get-upload": {"state": "open", "parts": [{"partNumber": 1, "etag": f'"{example_data.etag()}"'}]},
    "videos/batch-get-videos": {
        "items": [{"videoId": example_data.HARBOUR}, {"videoId": example_data.REGATTA}],
        "missing": [example_data.ABSENT],
    },
    "videos/batch-videos": {"succeeded": 2, "failed": 0},
    "videos/create-video": {"title": "Low tide", "userId": "alice", "version": 1},
    "videos/create-video-invalid": {"type": f"{PROBLEM}invalid-content"},
    "videos/get-video-as-it-will-be": {"errors": [{"parameter": "asOf"}]},
    "videos/get-video-of-no-version": {"type": f"{PROBLEM}not-found"},
    "videos/get-video": {"videoId": example_data.HARBOUR, "viewCount": example_data.VIEWS},
    "videos/get-video-absent": {"type": f"{PROBLEM}not-found"},
    "undo/revert-changeset-absent": {"type": f"{PROBLEM}not-found"},
    "undo/revert-video": {"video": {"videoId": example_data.REGATTA, "version": 1}, "changes": [], "dryRun": True},
    "undo/revert-video-of-an-absent-video": {"type": f"{PROBLEM}not-found"},
    "videos/get-video-of-a-version": {"title": "Regatta", "version": 1, "without": ["viewCount"]},
    "videos/get-video-included": {
        "localTitle": {"title": "A Day at the Harbour"},
        "included": {"tags": ["boats", "harbour"], "ratings": {"votes": 1}},
    },
    "videos/list-episodes": {"items": [{"video": {"videoId": example_data.UNWANTED}, "season": 1, "episode": 1}]},
    "videos/list-videos": {"items": [{"videoId": example_data.UNWANTED}, {"videoId": example_data.REGATTA}]},
    "videos/list-videos-by-tag": {"items": [{"videoId": example_data.HARBOUR}]},
    "videos/list-videos-parameter-twice": {"type": f"{PROBLEM}invalid-parameter"},
    "videos/list-videos-unserved": {"type": f"{PROBLEM}unserved-query"},
    "videos/patch-video": {"description": "From the pier.", "version": 3},
    "videos/patch-video-of-another": {"type": f"{PROBLEM}forbidden"},
    "videos/patch-video-outdated": {"type": f"{PROBLEM}version-mismatch"},
    "videos/restore-video": {"status": "ready", "version": 3},
    "webhooks/create-webhook": {"url": "https://search.example/changes", "paused": True, "version": 1},
    "webhooks/create-webhook-within-the-network": {"errors": [{"pointer": "/url"}]},
    "webhooks/get-webhook": {"webhookId": example_data.HOOK, "follows": "alice"},
    "webhooks/get-webhook-of-another": {"type": f"{PROBLEM}not-found"},
    "webhooks/list-deliveries": {"items": [], "nextCursor": None},
    "webhooks/list-webhooks": {"nextCursor": None},
    "webhooks/patch-webhook": {"description": "For the search engine", "version": 2},
    "webhooks/replay-webhook-too-far-back": {"errors": [{"pointer": "/from"}]},
    "webhooks/rotate-secret": {"webhookId": example_data.HOOK, "version": 3},
    "webhooks/test-webhook": {"delivered": True, "status": 204},
    "views/count-view": {"videoId": example_data.HARBOUR, "viewCount": example_data.VIEWS + 1},
    "views/count-view-of-a-viewer": {"counted": True, "reason": None},
    "views/count-views": {"results": [{"id": "a1"}, {"id": "a2", "problem": {"status": 404}}]},
    "views/count-view-without-scope": {"type": f"{PROBLEM}forbidden"},
    "views/explain-views": {"videoId": example_data.HARBOUR, "notCounted": {"repeated": 0}},
    "views/get-views": {"videoId": example_data.HARBOUR, "granularity": "day", "tz": "Europe/Berlin"},
}
TEXTS = {
    "console/get-console": "",
    "console/get-console-file": "<title>",
    "public/get-docs": "swagger",
    "public/get-docs-asset": "swagger",
}
"""Text that a response which is not JSON must contain, by event."""
REQUESTS = [name for name, example in EXAMPLES.items() if isinstance(example.answers, int)]


@pytest.mark.parametrize("name", REQUESTS)
def test_request_has_its_documented_response(outcome: Outcome, name: str) -> None:
    response = outcome.responses[name]
    assert response["statusCode"] == EXAMPLES[name].answers, response["body"]
    if name in PARTIAL_RESPONSE:
        assert _contains_members(PARTIAL_RESPONSE[name], json.loads(_body(response))), _body(response)
    elif name in TEXTS:
        assert TEXTS[name] in _body(response).lower()
    elif response["statusCode"] in (204, 304):
        assert response["body"] == ""
    else:
        jsonschema_rs.Draft202012Validator(_response_schema(name)).validate(json.loads(_body(response)))


def test_events_have_the_same_responses_in_any_order_and_after_a_restore(outcome: Outcome) -> None:
    for statuses in outcome.later:
        assert statuses == {name: example.answers for name, example in EXAMPLES.items()}


def _response_schema(name: str) -> dict[str, Any]:
    """Return the schema that the OpenAPI document declares for the response to an event."""
    (route,) = (route for route in ROUTES if route.key == EXAMPLES[name].event["routeKey"])
    operation = document()["paths"][route.path][route.method.lower()]
    content = operation["responses"][str(EXAMPLES[name].answers)]["content"]
    kind = next(kind for kind in (PROBLEM_TYPE, JSON) if kind in content)
    return {**content[kind]["schema"], "components": document()["components"]}


def _body(response: Mapping[str, Any]) -> str:
    return base64.b64decode(response["body"]).decode() if response["isBase64Encoded"] else str(response["body"])


def _contains_members(part: Any, document: Any) -> bool:
    """Return whether a document contains the members of `part`, at any depth. Lists must have the same length."""
    if isinstance(part, Mapping):
        return isinstance(document, Mapping) and all(
            name in document and _contains_members(part[name], document[name]) for name in part
        )
    if isinstance(part, list):
        return isinstance(document, list) and len(part) == len(document) and all(map(_contains_members, part, document))
    return bool(part == document)


# --- Background functions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in REQUESTS])
def test_event_that_is_no_request_is_handled_without_failure(outcome: Outcome, name: str) -> None:
    assert outcome.responses[name] == EXAMPLES[name].answers


SENT = {
    "video-created": {"aggregates": [example_data.HARBOUR]},
    "video-changed": {"aggregates": [example_data.HARBOUR]},
    "video-deleted": {"aggregates": [example_data.HARBOUR]},
    "film-arrived": {"aggregates": [example_data.AWAITED]},
    "video-removed": {"purge": [example_data.GONE], "aggregates": [example_data.GONE]},
    "video-expired": {"purge": [example_data.GONE], "aggregates": [example_data.GONE]},
    "job-queued": {"probe": [example_data.FAILED]},
    "rendition-queued": {"transcode": [example_data.FAILED]},
    "playlist-removed": {"purge": [example_data.LOST]},
    "revert-begun": {"reverts": [example_data.REQUEST]},
    "views-and-ratings": {"tallies": [example_data.HARBOUR]},
    "several": {
        "aggregates": [example_data.HARBOUR, example_data.HARBOUR, example_data.GONE],
        "probe": [example_data.FAILED],
        "purge": [example_data.GONE, example_data.LOST],
    },
}


@pytest.mark.parametrize("name", [example.name for example in EXAMPLES.values() if example.function == "stream_router"])
def test_router_sends_the_messages_of_a_record(outcome: Outcome, name: str) -> None:
    sent = outcome.sent[f"stream_router/{name}"]
    names = ("videoId", "playlistId", "revertId")
    about = {queue: [body[name] for body in bodies for name in names if name in body] for queue, bodies in sent.items()}
    assert about == SENT[name]


def test_router_creates_a_job_for_an_uploaded_file(outcome: Outcome) -> None:
    assert outcome.job(example_data.AWAITED, "probe")["state"] == "queued"


@pytest.mark.parametrize(
    ("video_id", "trail"),
    [
        (
            example_data.HARBOUR,
            [
                *(("video", action, "alice") for action in ("created", "changed", "deleted")),
                ("credit", "created", "alice"),
                ("credit", "removed", "alice"),
            ],
        ),
        (example_data.AWAITED, [("video", "changed", "job:arrivals")]),
        (example_data.GONE, [("video", "removed", "unknown"), ("video", "expired", "dynamodb.amazonaws.com")]),
        (
            example_data.FAILED,
            [
                ("job", "queued", "job:router"),
                ("job", "done", "job:probe"),
                ("job", "failed", "transcoder"),
                ("job", "withdrawn", "job:router"),
            ],
        ),
    ],
)
def test_audit_records_each_change_once_with_its_author(
    outcome: Outcome, video_id: str, trail: list[tuple[Any, ...]]
) -> None:
    assert outcome.trail(video_id) == trail


def test_audit_records_the_changes_of_a_playlist(outcome: Outcome) -> None:
    entries = [entry for entry in outcome.entries if entry.get("playlistId") == example_data.LOST]
    assert [(entry["action"], entry["by"]["id"]) for entry in entries] == [("removed", "unknown"), ("changed", "alice")]
    assert entries[1]["changes"] == [
        {"field": f"/entries/{example_data.HARBOUR}", "to": {"rank": "V", "addedAt": example_data.THEN}}
    ]


def test_uploaded_file_is_accepted(outcome: Outcome) -> None:
    video = outcome.video(example_data.AWAITED)
    assert (video["status"], video["source"]) == ("processing", example_data.source(example_data.AWAITED))


def test_probed_file_matches_the_example_data(outcome: Outcome) -> None:
    video = outcome.video(example_data.ARRIVED)
    assert video["source"]["media"] == example_data.MEDIA
    assert video["source"]["renditions"] == example_data.SIZES
    assert {name: video[name] for name in example_data.FIELDS} == example_data.FIELDS


@pytest.mark.parametrize("kind", ["poster", "storyboard"])
def test_thumbnails_and_storyboard_are_created(outcome: Outcome, kind: str) -> None:
    assert outcome.job(example_data.PROBED, kind)["state"] == "done"
    assert any(name.startswith(kind) for name in outcome.video(example_data.PROBED)["pictures"])


@pytest.mark.parametrize(
    "key",
    [
        CREDIT.key(videoId=example_data.GONE, personId=example_data.PERSON),
        MEMBERSHIP.key(playlistId=example_data.LOST, videoId=example_data.HARBOUR),
    ],
    ids=["video", "playlist"],
)
def test_purge_removes_remaining_items(outcome: Outcome, key: dict[str, str]) -> None:
    assert key in [{name: item[name] for name in key} for item in example_data.items(NOW)]
    assert outcome.item(key) is None


def test_totals_match_the_videos(outcome: Outcome) -> None:
    profile, tag = outcome.item(PROFILE.key(userId="bob")), outcome.item(TAG_COUNT.key(tag="boats"))
    assert (profile or {})["ready"] == 1
    assert (tag or {})["relSort"] == 1


def test_views_and_ratings_of_existing_videos_are_counted(outcome: Outcome) -> None:
    counter = outcome.item(VIEW_COUNTER.key(videoId=example_data.REGATTA, shard=0)) or {}
    hour = outcome.item(VIEW_HOUR.key(videoId=example_data.REGATTA, hour=hour_of(example_data.THEN))) or {}
    assert (counter["keyed"], counter["watched"]) == (1, 30_000)
    assert hour["starts"]["0"]["views"] == 41
    assert not [pk for pk, _ in outcome.items if pk.startswith("VIEWS#") and example_data.GONE in pk]


def test_example_data_has_no_overdue_job(outcome: Outcome) -> None:
    assert set(outcome.responses["sweeper/every-minute"].values()) == {0}


def test_every_expectation_belongs_to_an_event() -> None:
    assert PARTIAL_RESPONSE.keys() | TEXTS.keys() <= set(REQUESTS)
    assert {f"stream_router/{name}" for name in SENT} <= EXAMPLES.keys()
