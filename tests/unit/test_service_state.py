"""The state of the service (`GET /v1/operations`). Each part is exact, or names the data that it lacks. A part that cannot be
read does not affect the others."""

from typing import Any

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.counted_views import CountedViews
from local.testbed.harness import NOW, QUEUES, Api, record_operations
from local.testbed.wire import intercept
from shared import schema
from shared.aws.dynamodb import Table
from shared.aws.lean.client import ErrorResponse
from shared.aws.sqs import Queue, QueueDepth
from shared.background import operations
from shared.background.operations import HOURS, OperationsStore
from shared.background.reconcile import Reconcile
from shared.core.errors import Unavailable
from shared.core.periods import HOUR_SECONDS
from shared.views.rankings import Rankings

HOUR = NOW // HOUR_SECONDS * HOUR_SECONDS


def state(api: Api) -> dict[str, Any]:
    """Return the response to an administrator."""
    reply = api.get("/v1/operations", user="admin")
    assert reply.status == 200, reply.body
    content: dict[str, Any] = reply.json
    return content


def add_failed_job(table: Table, video_id: str, kind: str, reason: str, at: int, *, is_final: bool = False) -> None:
    """Store a failed job, as JobStore does."""
    error = {"reason": reason, "at": at, "attempt": 1} | ({"final": True} if is_final else {})
    item = schema.JOB.key(videoId=video_id, kind=kind) | {"kind": kind, "state": "failed", "error": error}
    relation = {"rel": schema.job_relation("failed"), "relShard": 0, "relSort": at, "relId": f"{video_id}/{kind}"}
    table.write(table.put(item | relation | {"schemaVersion": schema.SCHEMA_VERSION}))


def add_webhook(table: Table, webhook_id: str, **attributes: int) -> None:
    """Store the delivery state of a webhook that the sweeper must check."""
    relation = {"rel": schema.DUE, "relShard": 0, "relSort": NOW + 60, "relId": webhook_id}
    item = schema.WEBHOOK_STATE.key(webhookId=webhook_id) | {"webhookId": webhook_id, "nextAttemptAt": NOW + 60}
    table.write(table.put(item | relation | attributes | {"schemaVersion": schema.SCHEMA_VERSION}))


def test_an_empty_service_has_zeros_and_parts_that_were_never_computed(api: Api) -> None:
    shown = state(api)
    assert shown["totals"]["videos"] == dict.fromkeys(
        ("total", "uploaded", "processing", "ready", "failed", "deleted"), 0
    )
    assert [hour["count"] for hour in shown["totals"]["uploads"]] == [0] * HOURS
    assert shown["jobs"] == []
    assert shown["webhooks"] == {"behind": 0, "more": False, "items": []}
    assert shown["failures"] == {"examined": 0, "more": False, "causes": []}
    assert (shown["views"], shown["index"], shown["comparison"]) == (None, None, None)
    assert [queue["name"] for queue in shown["queues"]] == list(QUEUES)
    assert shown["unavailable"] == []


def test_videos_are_counted_by_status_and_uploads_by_hour(api: Api, background: BackgroundWork, table: Table) -> None:
    api.publish("alice", duration=1000)
    api.create("bob")
    background.uploaded_film(api)
    background.settle_totals()
    shown = state(api)["totals"]
    assert shown["videos"] == {"total": 3, "uploaded": 1, "processing": 1, "ready": 1, "failed": 0, "deleted": 0}
    assert shown["duration"] >= 1000
    assert [hour["from"] for hour in shown["uploads"]] == [HOUR - number * HOUR_SECONDS for number in range(HOURS)][
        ::-1
    ]
    assert [hour["count"] for hour in shown["uploads"]] == [0] * (HOURS - 1) + [1]
    assert state(api)["jobs"][0].keys() == {"queue", "open", "more", "oldestSeconds"}


def test_views_are_those_of_the_last_computation(api: Api, table: Table) -> None:
    viewed = CountedViews(table)
    viewed.count("v", NOW - HOUR_SECONDS, views=2)
    viewed.count("v", NOW, views=3)
    viewed.store()
    Rankings(table).compute(NOW)
    shown = state(api)["views"]
    assert shown["computedAt"] == NOW
    assert [hour["count"] for hour in shown["hours"]][-2:] == [2, 3]


def test_failed_jobs_are_grouped_by_cause_with_the_action_that_can_help(api: Api, table: Table) -> None:
    for number in range(7):
        add_failed_job(table, f"v{number}", f"transcode.{number}p", "The transcoder stopped.", NOW - number)
    add_failed_job(table, "w", "probe", "Not a video.", NOW - 9, is_final=True)
    shown = state(api)["failures"]
    assert (shown["examined"], shown["more"]) == (8, False)
    many, one = shown["causes"]
    assert one == {
        "kind": "probe",
        "reason": "Not a video.",
        "action": "upload",
        "count": 1,
        "latestAt": NOW - 9,
        "jobs": [{"videoId": "w", "kind": "probe"}],
    }
    assert (many["kind"], many["action"], many["count"], many["latestAt"]) == ("transcode", "retry", 7, NOW)
    assert many["jobs"] == [{"videoId": f"v{number}", "kind": f"transcode.{number}p"} for number in range(7)]


def test_more_is_true_if_only_the_newest_failed_jobs_were_examined(
    api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MAX_SAMPLE", 2)
    for number in range(3):
        add_failed_job(table, f"v{number}", "probe", f"Reason {number}.", NOW - number)
    shown = state(api)["failures"]
    assert (shown["examined"], shown["more"]) == (2, True)
    assert [cause["reason"] for cause in shown["causes"]] == ["Reason 0.", "Reason 1."]


def test_only_webhooks_with_undelivered_changes_are_behind(api: Api, table: Table) -> None:
    add_webhook(table, "new")
    add_webhook(table, "late", oldestWaiting=(NOW - 50) * 1000)
    add_webhook(table, "failing", oldestWaiting=(NOW - 90) * 1000, failingSince=NOW - 80)
    shown = state(api)["webhooks"]
    assert (shown["behind"], shown["more"]) == (2, False)
    assert [(late["webhookId"], late["seconds"], late["failingSince"]) for late in shown["items"]] == [
        ("failing", 90, NOW - 80),
        ("late", 50, None),
    ]


def test_the_report_of_the_last_comparison_is_shown(api: Api, table: Table, background: BackgroundWork) -> None:
    api.publish("alice")
    background.settle_totals()
    key = schema.PROFILE.key(userId="alice")
    table.write(table.put((table.get(key) or {}) | {"ready": 5}))
    run = Reconcile(table, clock=lambda: NOW, sleep=lambda _: None)
    run.run(repair=False, report=lambda _: None)
    run.store_report()
    assert state(api)["comparison"] == {
        "at": NOW,
        "repairs": False,
        "outcomes": {"found": 1},
        "findings": [{"kind": "user", "id": "alice", "outcome": "found"}],
    }


def test_queues_that_do_not_respond_leave_the_other_parts(table: Table) -> None:
    class Silent(Queue):
        def __init__(self) -> None:
            """Create a queue without a client."""

        def depth(self) -> QueueDepth:
            raise Unavailable("The queue is unavailable.")

    shown = OperationsStore(table, {"probe": Silent()}, {}).read(NOW)
    assert shown["unavailable"] == ["queues"]
    assert shown["queues"] is None
    assert shown["totals"]["videos"]["total"] == 0


@pytest.mark.parametrize(
    ("operation", "parts"), [("GetItem", ["views", "index", "comparison"]), ("BatchGetItem", ["failures"])]
)
def test_parts_that_cannot_be_read_are_named_and_the_others_are_shown(
    api: Api, table: Table, operation: str, parts: list[str]
) -> None:
    add_failed_job(table, "v", "probe", "Not a video.", NOW)

    def busy(name: str, _: Any, send: Any) -> Any:
        if name == operation:
            raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
        return send()

    undo = intercept(table.client, busy)
    shown = state(api)
    undo()
    assert shown["unavailable"] == parts
    assert all(shown[part] is None for part in parts)
    assert shown["totals"] is not None


def test_reads_are_the_same_number_whatever_the_catalogue(api: Api, table: Table, background: BackgroundWork) -> None:
    def requests() -> list[str]:
        with record_operations(table.client) as sent:
            state(api)
        return [request.name for request in sent]

    before = requests()
    for number in range(12):
        api.publish(f"user{number}")
    background.settle_totals()
    assert requests() == before
    assert "Scan" not in before
