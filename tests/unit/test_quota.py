"""Daily job quota of each owner."""

from typing import Any

import pytest
from moto.core.models import botocore_stubber

from local.testbed.harness import NOW
from shared.aws.dynamodb import Table
from shared.core.errors import QuotaExceeded, Unavailable, WriteContention
from shared.processing.daily_quota import DAY, QuotaStore
from shared.schema import QUOTA
from tests.integration.faults import FaultLine, Incident, conflict, fail, lose_request, lose_response, throttle

TODAY = "2025-06-15"


def _used(table: Table, owner: str = "alice", date: str = TODAY) -> Any:
    return (table.get(QUOTA.key(userId=owner, date=date)) or {}).get("jobs", 0)


@pytest.fixture
def quota(table: Table) -> QuotaStore:
    """Return a store with a quota of ten jobs a day."""
    return QuotaStore(table, 10)


def test_reservations_add_up_to_at_most_the_cap(quota: QuotaStore, table: Table) -> None:
    for _ in range(3):
        quota.reserve("alice", 3, NOW)
    with pytest.raises(QuotaExceeded) as raised:
        quota.reserve("alice", 3, NOW)
    assert _used(table) == 9
    quota.reserve("alice", 1, NOW)
    assert _used(table) == 10
    # From 2025-06-15T15:06:40Z, 8 h 53 min 20 s remain until midnight UTC.
    assert raised.value.headers == {"Retry-After": str(8 * 3600 + 53 * 60 + 20)}


def test_reservation_larger_than_the_cap_is_refused(quota: QuotaStore, table: Table) -> None:
    with pytest.raises(QuotaExceeded):
        quota.reserve("alice", 11, NOW)
    assert _used(table) == 0


def test_next_day_begins_at_zero(quota: QuotaStore, table: Table) -> None:
    midnight = NOW - NOW % DAY + DAY
    quota.reserve("alice", 10, midnight - 1)
    with pytest.raises(QuotaExceeded) as raised:
        quota.reserve("alice", 1, midnight - 1)
    assert raised.value.headers == {"Retry-After": "1"}
    quota.reserve("alice", 10, midnight)
    assert (_used(table), _used(table, date="2025-06-16")) == (10, 10)


def test_each_owner_has_a_separate_quota(quota: QuotaStore, table: Table) -> None:
    owners = ["alice", "alice#QUOTA", "alice%23QUOTA", "ali ce", "álice", "x" * 255]
    for owner in owners:
        quota.reserve(owner, 10, NOW)
    assert [_used(table, owner) for owner in owners] == [10] * len(owners)


def test_count_expires_two_days_later(quota: QuotaStore, table: Table) -> None:
    quota.reserve("alice", 1, NOW)
    item = table.get(QUOTA.key(userId="alice", date=TODAY))
    assert item
    assert item["purgeAt"] == NOW + 2 * DAY


@pytest.mark.parametrize(
    "incident", [lose_request, lose_response, throttle, fail], ids=lambda incident: incident.__name__
)
def test_transient_fault_counts_a_reservation_once(quota: QuotaStore, table: Table, incident: Any) -> None:
    line = FaultLine(table.client, transport=botocore_stubber)
    for count in (3, 7):  # below the cap, and exactly up to it: a second count would exceed it
        line.arm(incident, at=0)
        quota.reserve("alice", count, NOW)
    assert _used(table) == 10


@pytest.mark.parametrize(("incident", "error"), [(throttle, Unavailable), (conflict, WriteContention)])
def test_permanent_fault_raises_an_error_and_counts_nothing(
    quota: QuotaStore, table: Table, incident: Incident, error: type[Exception]
) -> None:
    line = FaultLine(table.client, transport=botocore_stubber)
    line.arm(incident)
    with pytest.raises(error):
        quota.reserve("alice", 1, NOW)
    line.disarm()
    assert _used(table) == 0
