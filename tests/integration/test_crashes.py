"""A failure between any two DynamoDB calls leaves no partial change, and a retry completes the request.

Each operation fails at each of its calls, in each possible way. The table must then equal the table after an
undisturbed run.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse

from local.access_patterns import ACCESS_PATTERNS
from local.testbed.harness import Api, Clock, Reply, make_api
from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.videos.counters import ViewCounters
from tests.integration import faults
from tests.integration.conftest import NewTable
from tests.integration.contents import contents, videos_of, without_identity
from tests.integration.faults import FaultLine, Incident, Killed, Send

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"Idempotency-Key": "key-1"}
BODY: dict[str, Any] = {"title": "A film", "category": "film", "tags": ["a", "b"], "expiresAt": 1_760_000_000}
WITHOUT_TAGS = {name: value for name, value in BODY.items() if name != "tags"}
PATCH = {"title": "New", "category": "news", "metadata": {"k": 1}}
OF_TAGS = PATCH | {"tags": ["b", "c"]}

REFUSED = (faults.throttle, faults.fail)
BROKEN = (faults.lose_request, faults.lose_response)
FATAL = (faults.kill_before, faults.kill_after)


@dataclass(frozen=True)
class Case:
    """One request, the function that creates its precondition, and the access pattern that lists its calls."""

    name: str
    row: str
    arrange: Callable[[Api], str]
    send: Callable[[Api, str], Reply]
    replayed: tuple[tuple[str, Any], ...] = ()
    """Members of the response that have other values if the request was already applied, with these values. Empty if
    the response is the same."""

    @property
    def calls(self) -> tuple[str, ...]:
        """DynamoDB operations of an undisturbed run."""
        return next(pattern.operations for pattern in ACCESS_PATTERNS if pattern.request == self.row)

    @property
    def breaks_at(self) -> Sequence[int]:
        """Numbers of the calls that the tests break. If all calls are queries, these are the first and the last."""
        last = len(self.calls) - 1
        return sorted({0, last}) if set(self.calls) == {"Query"} else range(last + 1)


def nothing(_: Api) -> str:
    return ""


def published(api: Api) -> str:
    return str(api.publish(**BODY, videoId="3f2504e0-4f89-41d3-9a0c-0305e82c3301")["videoId"])


def deleted(api: Api) -> str:
    video_id = published(api)
    assert api.delete(f"/v1/videos/{video_id}").status == 204
    return video_id


def viewed(api: Api) -> str:
    video_id = published(api)
    assert api.post(f"/v1/videos/{video_id}/views", user="bob").status == 200
    return video_id


def listing(query: str, user: str = "alice") -> Callable[[Api, str], Reply]:
    return lambda api, _: api.get("/v1/videos", query=query, user=user)


# Requests that a client may repeat: they have a key, or are idempotent.
REPEATABLE = (
    Case(
        "create with a key",
        "POST /v1/videos (Idempotency-Key)",
        nothing,
        lambda api, _: api.post("/v1/videos", BODY, headers=KEY),
    ),
    Case(
        "patch",
        "PATCH /v1/videos/{videoId}",
        published,
        lambda api, video_id: api.patch(f"/v1/videos/{video_id}", PATCH),
    ),
    Case(
        "patch of tags",
        "PATCH /v1/videos/{videoId} (tags)",
        published,
        lambda api, video_id: api.patch(f"/v1/videos/{video_id}", OF_TAGS),
    ),
    Case(
        "delete",
        "DELETE /v1/videos/{videoId}",
        published,
        lambda api, video_id: api.delete(f"/v1/videos/{video_id}"),
    ),
    Case(
        "restore with a key",
        "POST /v1/videos/{videoId}/restore (Idempotency-Key)",
        deleted,
        lambda api, video_id: api.post(f"/v1/videos/{video_id}/restore", headers=KEY),
    ),
    Case(
        "view with a key",
        "POST /v1/videos/{videoId}/views (Idempotency-Key)",
        viewed,
        lambda api, video_id: api.post(f"/v1/videos/{video_id}/views", headers=KEY, user="carol"),
        (("counted", False), ("reason", "duplicate"), ("viewCount", 1)),
    ),
    Case(
        "view of a viewer",
        "POST /v1/videos/{videoId}/views (Idempotency-Key)",
        viewed,
        lambda api, video_id: api.post(f"/v1/videos/{video_id}/views", {"viewerId": "tv"}, headers=KEY, user="carol"),
        (("counted", False), ("reason", "duplicate"), ("viewCount", 1)),
    ),
    Case("get", "GET /v1/videos/{videoId}", viewed, lambda api, video_id: api.get(f"/v1/videos/{video_id}")),
    Case(
        "get a field",
        "GET /v1/videos/{videoId}?fields=title",
        viewed,
        lambda api, video_id: api.get(f"/v1/videos/{video_id}", query="fields=title"),
    ),
    Case("list an owner", "GET /v1/videos?userId=u&from=t&to=t", published, listing("userId=alice")),
    Case("list a tag", "GET /v1/videos?tag=t&from=t&to=t", published, listing("tag=A")),
    Case("list a category", "GET /v1/videos?category=c&from=t&to=t", published, listing("category=film")),
    Case("list the feed", "GET /v1/videos?from=t&to=t", published, listing("")),
    Case("list a status", "GET /v1/videos?status=failed", published, listing("status=failed", "admin")),
    Case("list ready ones", "GET /v1/videos?status=ready", published, listing("status=ready", "admin")),
)
READS = ("GetItem", "Query", "BatchGetItem")
WRITING = tuple(case for case in REPEATABLE if not set(case.calls) <= set(READS))
"""Repeatable cases in which a killed process could leave a partial change."""
# Requests that a client cannot repeat blindly. The service itself retries them.
UNREPEATABLE = (
    Case("create", "POST /v1/videos", nothing, lambda api, _: api.post("/v1/videos", WITHOUT_TAGS)),
    Case(
        "patch of tags with If-Match",
        "PATCH /v1/videos/{videoId} (tags)",
        published,
        lambda api, video_id: api.patch(f"/v1/videos/{video_id}", OF_TAGS, headers={"If-Match": '"1"'}),
    ),
    Case(
        "patch with If-Match",
        "PATCH /v1/videos/{videoId}",
        published,
        lambda api, video_id: api.patch(f"/v1/videos/{video_id}", PATCH, headers={"If-Match": '"1"'}),
    ),
    Case(
        "delete with If-Match",
        "DELETE /v1/videos/{videoId}",
        published,
        lambda api, video_id: api.delete(f"/v1/videos/{video_id}", headers={"If-Match": '"1"'}),
    ),
    Case(
        "restore",
        "POST /v1/videos/{videoId}/restore",
        deleted,
        lambda api, video_id: api.post(f"/v1/videos/{video_id}/restore"),
    ),
)
VIEW = Case(
    "view",
    "POST /v1/videos/{videoId}/views",
    viewed,
    lambda api, video_id: api.post(f"/v1/videos/{video_id}/views", user="carol"),
)


def each_call(*cases: Case) -> pytest.MarkDecorator:
    """Parametrize a test with each case and each of its calls."""
    calls = [(case, call) for case in cases for call in case.breaks_at]
    return pytest.mark.parametrize(
        ("case", "call"), calls, ids=[f"{case.name}-{call}-{case.calls[call]}" for case, call in calls]
    )


def each_incident(*incidents: Incident) -> pytest.MarkDecorator:
    """Parametrize a test with each incident."""
    return pytest.mark.parametrize("incident", incidents, ids=lambda incident: incident.__name__)


@dataclass
class Service:
    """Service with one table and a fault line. Each call of `instance` starts a new function."""

    table: Table
    line: FaultLine
    client: "DynamoDBClient"
    clock: Clock
    attempts: int

    def instance(self) -> Api:
        """Return a new instance that sends its requests through the fault line."""
        through = Table(self.table.name, self.client, attempts=self.attempts, sleep=lambda _: None)
        return make_api(through, self.clock)

    def arrange(self, case: Case) -> str:
        """Create the precondition of the request. Return the video's id, or "" without a video."""
        return case.arrange(make_api(self.table, clock=self.clock))


NewService = Callable[[int], Service]


@pytest.fixture
def new_service(
    new_table: NewTable, recorded_client: tuple["DynamoDBClient", FaultLine], clock: Clock
) -> Iterator[NewService]:
    """Return a function that creates a service with an empty table and a number of attempts per request."""
    client, line = recorded_client
    yield lambda attempts: Service(new_table(), line, client, clock, attempts)
    line.disarm()


@pytest.fixture
def service(new_service: NewService) -> Service:
    """Return a service without retries, so that every incident causes an error response."""
    return new_service(1)


@pytest.fixture
def deployed(new_service: NewService) -> Service:
    """Return a service that retries as often as the deployed service."""
    return new_service(REQUEST_ATTEMPTS)


Outcome = tuple[int, Any, list[str]]
Undisturbed = Callable[[Case], Outcome]


@pytest.fixture(scope="module")
def undisturbed(new_table: NewTable) -> Undisturbed:
    """Return a function that runs a case without faults, and returns its response and the table's contents. It caches
    the result."""

    @cache
    def run(case: Case) -> Outcome:
        table = new_table()
        api = make_api(table)
        reply = case.send(api, case.arrange(api))
        assert reply.status < 300, reply.body
        return outcome(reply, table)

    return run


def outcome(reply: Reply, table: Table) -> Outcome:
    """Return status and content of a response, and the contents of the table, for comparison."""
    return reply.status, _content(reply), contents(table)


def after_retry(case: Case, undisturbed: Outcome, table: Table) -> Outcome:
    """Return the expected response and contents after a retry.

    `undisturbed` is the outcome without faults. `table` is the table before the retry: its contents show whether the
    first request was applied.
    """
    status, content, items = undisturbed
    return status, content | dict(case.replayed) if case.replayed and contents(table) == items else content, items


def _content(reply: Reply) -> Any:
    if not reply.body:
        return None
    content = reply.json
    if "items" in content:
        return [without_identity(item) for item in content["items"]]
    return without_identity(content)


def assert_unavailable(reply: Reply) -> None:
    assert reply.status == 503, reply.body
    assert reply.headers["retry-after"] == "1"
    assert reply.headers["content-type"] == "application/problem+json"


def send_through(service: Service, case: Case, video_id: str, call: int, incident: Incident) -> None:
    """Send a request with an incident in one call. Assert that the response is 503 with Retry-After, or that the incident
    killed the process."""
    service.line.arm(incident, at=call)
    if incident in FATAL:
        with pytest.raises(Killed):
            case.send(service.instance(), video_id)
    else:
        assert_unavailable(case.send(service.instance(), video_id))


@each_incident(*REFUSED, *BROKEN)
@each_call(*REPEATABLE)
def test_retry_after_a_fault_at_any_call_applies_the_request_once(
    service: Service, undisturbed: Undisturbed, case: Case, call: int, incident: Incident
) -> None:
    video_id = service.arrange(case)

    service.line.arm(incident, at=call)
    assert_unavailable(case.send(service.instance(), video_id))
    service.line.disarm()
    expected = after_retry(case, undisturbed(case), service.table)
    retry = case.send(service.instance(), video_id)

    assert outcome(retry, service.table) == expected


@each_incident(*FATAL)
@each_call(*WRITING)
def test_killed_function_leaves_no_partial_change(
    service: Service, undisturbed: Undisturbed, case: Case, call: int, incident: Incident
) -> None:
    video_id = service.arrange(case)
    before = contents(service.table)

    service.line.arm(incident, at=call)
    with pytest.raises(Killed):
        case.send(service.instance(), video_id)
    service.line.disarm()

    assert contents(service.table) in (before, undisturbed(case)[2])
    expected = after_retry(case, undisturbed(case), service.table)
    retry = case.send(service.instance(), video_id)
    assert outcome(retry, service.table) == expected


@each_incident(*REFUSED, *BROKEN, *FATAL)
@each_call(*UNREPEATABLE)
def test_request_without_a_key_is_applied_completely_or_not_at_all(
    service: Service, undisturbed: Undisturbed, case: Case, call: int, incident: Incident
) -> None:
    video_id = service.arrange(case)
    before = contents(service.table)

    send_through(service, case, video_id, call, incident)

    assert contents(service.table) in (before, undisturbed(case)[2])


@each_incident(*REFUSED, *BROKEN)
@each_call(*REPEATABLE, *UNREPEATABLE)
def test_single_fault_is_hidden_from_the_client_with_deployed_retries(
    deployed: Service, undisturbed: Undisturbed, case: Case, call: int, incident: Incident
) -> None:
    # If a response is lost, the condition of the retried write fails. The service must recognise its own first write.
    video_id = deployed.arrange(case)

    deployed.line.arm(incident, at=call)
    reply = case.send(deployed.instance(), video_id)

    assert len(deployed.line.calls) == len(case.calls) + 1
    assert outcome(reply, deployed.table) == undisturbed(case)


def test_write_of_another_user_is_not_mistaken_for_a_repeated_write(deployed: Service) -> None:
    # The first attempt was lost, and another user changed the video. So the condition of If-Match must fail.
    video_id = published(make_api(deployed.table, clock=deployed.clock))
    path = f"/v1/videos/{video_id}"

    def overtake(_: Send) -> AWSResponse:
        other = make_api(deployed.table, clock=deployed.clock).patch(path, {"title": "Theirs"})
        assert other.status == 200
        return faults.fail(_)

    deployed.line.arm(overtake, at=1)
    reply = deployed.instance().patch(path, {"title": "Ours"}, headers={"If-Match": '"1"'})

    assert reply.status == 412
    assert [(video["title"], video["version"]) for video in videos_of(deployed.table)] == [("Theirs", 2)]


def test_throttled_view_is_counted_once(deployed: Service, undisturbed: Undisturbed) -> None:
    video_id = deployed.arrange(VIEW)
    deployed.line.arm(faults.throttle, at=1)
    reply = VIEW.send(deployed.instance(), video_id)
    # The counter then has two shards, so another item may contain the view.
    assert outcome(reply, deployed.table)[:2] == undisturbed(VIEW)[:2]
    assert ViewCounters(deployed.table).read([video_id], consistent=True)[video_id].views == reply.json["viewCount"]


@each_incident(faults.fail, *BROKEN, *FATAL)
@each_call(VIEW)
def test_view_without_a_key_is_counted_at_most_once(
    service: Service, undisturbed: Undisturbed, case: Case, call: int, incident: Incident
) -> None:
    # An increment cannot be repeated safely, so the client must decide. With a key, the service can retry.
    video_id = service.arrange(case)
    before = contents(service.table)

    send_through(service, case, video_id, call, incident)

    carried_out = incident in (faults.lose_response, faults.kill_after) and case.calls[call] == "UpdateItem"
    assert contents(service.table) == (undisturbed(case)[2] if carried_out else before)


@pytest.mark.parametrize("case", [*REPEATABLE, *UNREPEATABLE, VIEW], ids=lambda case: case.name)
def test_lasting_throttling_is_503_after_a_few_attempts(deployed: Service, case: Case) -> None:
    video_id = deployed.arrange(case)
    before = contents(deployed.table)

    deployed.line.arm(faults.throttle)
    reply = case.send(deployed.instance(), video_id)

    assert_unavailable(reply)
    assert reply.json["type"] == "urn:video-metadata:problem:unavailable"
    # Only the first call is sent. A list sends one query to each partition concurrently.
    assert set(deployed.line.calls) == {case.calls[0]}
    assert len(deployed.line.calls) <= REQUEST_ATTEMPTS * len(case.calls)
    assert contents(deployed.table) == before


@pytest.mark.parametrize("reasons", list(itertools.permutations(["None", "ThrottlingError"])), ids=" ".join)
def test_throttled_transaction_is_503(deployed: Service, reasons: tuple[str, ...]) -> None:
    deployed.line.arm(faults.cancelled(*reasons))
    assert_unavailable(deployed.instance().post("/v1/videos", BODY, headers=KEY))


IN_TRANSACTIONS = [case for case in REPEATABLE if "TransactWriteItems" in case.calls]


@pytest.mark.parametrize("case", IN_TRANSACTIONS, ids=lambda case: case.name)
def test_transaction_conflict_is_retried(deployed: Service, undisturbed: Undisturbed, case: Case) -> None:
    video_id = deployed.arrange(case)
    call = case.calls.index("TransactWriteItems")

    deployed.line.arm(faults.cancelled("None", "TransactionConflict"), at=call)
    reply = case.send(deployed.instance(), video_id)

    assert outcome(reply, deployed.table) == undisturbed(case)


@pytest.mark.parametrize("case", [case for case in IN_TRANSACTIONS if "key" in case.name], ids=lambda case: case.name)
def test_lasting_conflict_is_409_and_the_key_can_be_used_again(
    deployed: Service, undisturbed: Undisturbed, case: Case
) -> None:
    video_id = deployed.arrange(case)
    before = contents(deployed.table)
    conflict = faults.cancelled("TransactionConflict", "None")

    def conflict_in_transactions(send: Send) -> AWSResponse | None:
        return conflict(send) if deployed.line.calls[-1] == "TransactWriteItems" else None

    deployed.line.arm(conflict_in_transactions)
    reply = case.send(deployed.instance(), video_id)

    assert (reply.status, reply.headers["retry-after"]) == (409, "1")
    assert reply.json["type"] == "urn:video-metadata:problem:request-in-flight"
    assert deployed.line.calls.count("TransactWriteItems") == REQUEST_ATTEMPTS
    assert contents(deployed.table) == before

    deployed.line.disarm()
    retry = case.send(deployed.instance(), video_id)
    assert outcome(retry, deployed.table) == undisturbed(case)


@pytest.mark.parametrize(
    "case", [case for case in (*UNREPEATABLE, VIEW) if "UpdateItem" in case.calls], ids=lambda case: case.name
)
def test_write_during_a_transaction_on_its_item_is_retried(
    deployed: Service, undisturbed: Undisturbed, case: Case
) -> None:
    video_id = deployed.arrange(case)
    deployed.line.arm(faults.conflict, at=case.calls.index("UpdateItem"))
    reply = case.send(deployed.instance(), video_id)
    assert outcome(reply, deployed.table) == undisturbed(case)


def _unprocessed(service: Service, video_id: str) -> Incident:
    keys = [{"pk": {"S": f"VIDEO#{video_id}"}, "sk": {"S": "#META"}}]
    content = {"Responses": {}, "UnprocessedKeys": {service.table.name: {"Keys": keys}}}

    def unprocessed(_: Send) -> AWSResponse:
        return faults.aws_response(content)

    return unprocessed


def test_unprocessed_keys_of_a_batch_read_are_requested_again(deployed: Service) -> None:
    video_id = deployed.arrange(VIEW)
    deployed.line.arm(_unprocessed(deployed, video_id), at=0)
    reply = deployed.instance().get(f"/v1/videos/{video_id}")
    assert (reply.status, reply.json["title"]) == (200, "A film")
    assert deployed.line.calls == ["BatchGetItem", "BatchGetItem"]


def test_batch_read_that_never_completes_is_503(deployed: Service) -> None:
    video_id = deployed.arrange(VIEW)
    deployed.line.arm(_unprocessed(deployed, video_id))
    assert_unavailable(deployed.instance().get(f"/v1/videos/{video_id}"))
    assert len(deployed.line.calls) == REQUEST_ATTEMPTS


def test_health_is_503_while_the_table_is_unreachable(service: Service) -> None:
    service.line.arm(faults.lose_request)
    assert_unavailable(service.instance().get("/health"))
    service.line.disarm()
    assert service.instance().get("/health").status == 200


def test_error_response_does_not_reveal_the_internal_cause(service: Service) -> None:
    service.line.arm(lambda _: faults.refusal("ResourceNotFoundException"))
    reply = service.instance().get("/health")
    assert reply.status == 500
    assert "ResourceNotFound" not in json.dumps(reply.json)
