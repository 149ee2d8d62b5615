"""Each deployed function responds in Lambda's own runtime as it does behind the API.

The runtime is AWS's Runtime Interface Emulator with Lambda's client for Python (local/rie.py).
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from local import STATE, example_data
from local.assembly import SynthesizedFunction, configuration, synthesised
from local.events import examples
from local.http_events import Event
from local.rie import Emulator, installed
from shared.aws.dynamodb import Table
from shared.schema import CREDIT, JOB, RATING_TOTALS, VIDEO, VIEW_COUNTER
from tests.e2e.conftest import Service
from tests.polling import eventually

pytestmark = pytest.mark.xdist_group("e2e")

REQUIREMENTS = Path(__file__).parents[1] / "runtime" / "requirements.txt"
EXAMPLES = {f"{example.function}/{example.name}": example for example in examples()}
"""Examples by function and name, in the order of the functions."""
REQUESTS = [example_name for example_name, example in EXAMPLES.items() if isinstance(example.answers, int)]
"""Names of the examples that API Gateway sends."""
EVENTS = [example_name for example_name, example in EXAMPLES.items() if not isinstance(example.answers, int)]
"""Names of the examples that the stream, the queues and the scheduler send."""

EFFECTS: Mapping[str, tuple[Mapping[str, str], Callable[[dict[str, Any]], object]]] = {
    "probe/film": (
        VIDEO.key(videoId=example_data.ARRIVED),
        lambda video: video["source"].get("media") == example_data.MEDIA,
    ),
    "thumbnails/poster": (
        JOB.key(videoId=example_data.PROBED, kind="poster"),
        lambda job: job["state"] == "done",
    ),
    "arrivals/film-uploaded": (
        VIDEO.key(videoId=example_data.AWAITED),
        lambda video: video["status"] == "processing",
    ),
    # The deployed purge function receives the router's message.
    "stream_router/video-removed": (
        CREDIT.key(videoId=example_data.GONE, personId=example_data.PERSON),
        lambda credit: not credit,
    ),
}
"""Effects of events, by the name of the example: key of an item, and predicate that accepts the item afterwards."""

COUNTED_AFTER_REQUESTS: Sequence[tuple[Mapping[str, str], Callable[[dict[str, Any]], object]]] = (
    (VIEW_COUNTER.key(videoId=example_data.HARBOUR, shard=0), lambda counter: counter.get("keyed") == 1),
    (RATING_TOTALS.key(videoId=example_data.HARBOUR), lambda totals: totals["votes"] == 2),
)
"""Counts that the stream consumers add after the requests: key of an item, and predicate that accepts the item."""

VARYING = {
    *("abort", "addedAt", "at", "createdAt", "expiresAt", "nextCursor", "playlistId", "ratedAt", "updatedAt"),
    *("finishedAt", "leaseUntil", "purgeAt", "queuedAt", "startedAt", "uploadId", "url", "windowEnds"),
    *("asOf", "previousSecretUntil", "runId", "score"),
}
"""Members that differ between runs: times, generated ids and addresses, and scores, which depend on all other videos.
"""

MOVING = {
    *("history/list-audit", "history/list-audit-of-removed", "history/list-playlist-audit"),
    *("jobs/list-jobs", "jobs/why-not-ready", "playlists/list-playlists"),
    *("totals/get-folder", "totals/get-operations", "totals/get-user", "totals/list-folders", "totals/list-tags"),
    *("views/get-views", "views/explain-views"),
    *("webhooks/list-webhooks", "webhooks/test-webhook"),
}
"""Examples whose responses may differ between runs: they contain durations, or values that background work or other
tests change concurrently. Only their status and the names of their members are compared."""
COUNTED_LATER = {"viewCount"}
"""Fields of the views function's responses that may differ, because the stream counts the views of both runs."""


class HttpResponse(NamedTuple):
    """Response as a client receives it."""

    status: int
    body: Any


@pytest.fixture(scope="module")
def assembly(service: Service) -> dict[str, SynthesizedFunction]:
    """Return the deployed functions by folder."""
    if service.assembly is None:
        pytest.skip("needs the folder of the deployed assembly")
    return {function.folder: function for function in synthesised(service.assembly)}


@pytest.fixture(scope="module")
def table(service: Service, assembly: Mapping[str, SynthesizedFunction]) -> Iterator[Table]:
    """Return the deployed table, to which each test writes the example data. The source files of the examples are
    deleted at the end."""
    name = configuration(service.aws, assembly["videos"]).environment["TABLE_NAME"]
    yield Table(name, service.aws.client("dynamodb"))
    example_data.forget_films(service.aws.client("s3"))


@pytest.fixture(scope="module")
def runtime() -> Path:
    """Return the folder of the emulator and the client, which are installed once per checkout."""
    return installed(REQUIREMENTS, STATE)


def _seed(service: Service, table: Table) -> None:
    example_data.seed(table, service.aws.client("s3"), int(time.time()))


def test_functions_respond_in_lambdas_runtime_as_behind_the_api(
    service: Service, assembly: Mapping[str, SynthesizedFunction], table: Table, runtime: Path, tmp_path: Path
) -> None:
    # Each pass starts with the same data and sends the same requests in the same order, so both passes write the same.
    _seed(service, table)
    via_api = {example: _sent(service, EXAMPLES[example].event) for example in REQUESTS}
    for effect in COUNTED_AFTER_REQUESTS:
        _await_effect(table, *effect)
    _seed(service, table)
    for folder, example_names in _by_function(REQUESTS):
        with Emulator(assembly[folder], service.aws, runtime, tmp_path / f"{folder}.log") as emulator:
            for example_name in example_names:
                response = _response(emulator, example_name)
                _compare(example_name, emulator, service, response, via_api[example_name])


def test_functions_handle_events_and_do_their_work_in_lambdas_runtime(
    service: Service, assembly: Mapping[str, SynthesizedFunction], table: Table, runtime: Path, tmp_path: Path
) -> None:
    _seed(service, table)
    # The router precedes the purge function, whose example would otherwise remove what the router's message removes. The
    # compactor precedes the audit function, whose example adds an old day to the archive. From that day on, the
    # compactor would visit each day.
    first = ("compactor", "stream_router")
    for folder, example_names in sorted(_by_function(EVENTS), key=lambda group: group[0] not in first):
        with Emulator(assembly[folder], service.aws, runtime, tmp_path / f"{folder}.log") as emulator:
            for example_name in example_names:
                response, expected = _invoked(emulator, example_name), EXAMPLES[example_name].answers
                assert isinstance(expected, Mapping)
                # Counts may be higher than expected, because the service does other work concurrently.
                assert response.keys() == expected.keys(), example_name
                assert response.get("batchItemFailures") == expected.get("batchItemFailures"), example_name
                if example_name in EFFECTS:
                    _await_effect(table, *EFFECTS[example_name])


def _await_effect(table: Table, key: Mapping[str, str], is_done: Callable[[dict[str, Any]], object]) -> None:
    # The deployed function may have done the work first, because the stream and the sweeper also process the example
    # data.
    eventually(lambda: table.get(dict(key), consistent=True) or {}, until=is_done)


def _by_function(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each function's folder with its examples, in order."""
    for folder, example_names in groupby(names, lambda example_name: EXAMPLES[example_name].function):
        yield folder, list(example_names)


def _invoked(emulator: Emulator, example_name: str) -> Any:
    """Return the function's response to an example. Fails if the function raised an error."""
    response = emulator.invoke(EXAMPLES[example_name].event)
    assert "errorMessage" not in response, f"{example_name}: {response}\n{emulator.log.read_text()}"
    return response


def _response(emulator: Emulator, example_name: str) -> HttpResponse:
    """Return the function's response to a request. It must have the status of the example."""
    example = EXAMPLES[example_name]
    response = eventually(
        lambda: _decoded(_invoked(emulator, example_name)),
        # The search function returns 503 until a new instance has read recent changes.
        until=lambda response: example.function != "search" or response.status != 503,
    )
    assert response.status == example.answers, f"{example_name}: {response}"
    return response


def _is_read(example_name: str) -> bool:
    return bool(EXAMPLES[example_name].event["requestContext"]["http"]["method"] == "GET")


def _sent(service: Service, event: Event) -> HttpResponse | None:
    """Send the request of an event through the API, and return the response. Return `None` if the tests have no token
    of the caller."""
    context, headers = event["requestContext"], event["headers"]
    user = context["authorizer"]["jwt"]["claims"]["sub"] if "authorizer" in context else None
    if user is not None and user not in service.tokens:
        return None
    path = f"{event['rawPath']}?{event['rawQueryString']}".rstrip("?")
    passed_on = ("accept-language", "content-type", "idempotency-key", "if-match", "if-none-match")
    sent = {name: headers[name] for name in passed_on if name in headers}
    reply = service.request(context["http"]["method"], path, user, content=event.get("body"), headers=sent)
    return HttpResponse(reply.status_code, _read(reply.text))


def _decoded(response: Mapping[str, Any]) -> HttpResponse:
    body = base64.b64decode(response["body"]).decode() if response["isBase64Encoded"] else response["body"]
    return HttpResponse(response["statusCode"], _read(body))


def _read(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


def _compare(
    example_name: str, emulator: Emulator, service: Service, response: HttpResponse, via_api: HttpResponse | None
) -> None:
    """Require equal responses. A GET is repeated, because background work may change the item between two reads."""
    event = EXAMPLES[example_name].event
    if (
        via_api is not None
        and _is_read(example_name)
        and _reproducible(example_name, response) != _reproducible(example_name, via_api)
    ):
        eventually(
            lambda: [_decoded(emulator.invoke(event)), _sent(service, event)],
            until=lambda both: _reproducible(example_name, both[0]) == _reproducible(example_name, both[1]),
        )
    elif via_api is not None:
        assert _reproducible(example_name, response) == _reproducible(example_name, via_api), example_name


def _reproducible(example_name: str, response: HttpResponse | None) -> Any:
    """Return the reproducible part of a response."""
    if response is None:
        return None
    if example_name in MOVING:
        return response.status, response.body.keys()
    varying = VARYING | COUNTED_LATER if EXAMPLES[example_name].function == "views" else VARYING
    return response.status, _without_varying(response.body, varying)


def _without_varying(value: Any, varying: Set[str]) -> Any:
    """Return a part of a response in which values that vary between requests are replaced."""
    if isinstance(value, str):
        return re.sub(r"the current time \d+", "the current time", value)
    if isinstance(value, Mapping):
        return {name: "" if name in varying else _without_varying(member, varying) for name, member in value.items()}
    return [_without_varying(element, varying) for element in value] if isinstance(value, list) else value
