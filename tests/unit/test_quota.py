"""Daily quota of jobs per owner."""

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
    """Ten jobs a day."""
    return QuotaStore(table, 10)


def test_reservations_add_up_to_the_cap_and_not_beyond(quota: QuotaStore, table: Table) -> None:
    for _ in range(3):
        quota.reserve("alice", 3, NOW)
    with pytest.raises(QuotaExceeded) as raised:
        quota.reserve("alice", 3, NOW)
    assert _used(table) == 9
    quota.reserve("alice", 1, NOW)
    assert _used(table) == 10
    # 2025-06-15T15:06:40Z: the day has 8 h 53 min 20 s left.
    assert raised.value.headers == {"Retry-After": str(8 * 3600 + 53 * 60 + 20)}


def test_more_than_the_cap_at_once_never_fits(quota: QuotaStore, table: Table) -> None:
    with pytest.raises(QuotaExceeded):
        quota.reserve("alice", 11, NOW)
    assert _used(table) == 0


def test_the_next_day_begins_at_nothing(quota: QuotaStore, table: Table) -> None:
    midnight = NOW - NOW % DAY + DAY
    quota.reserve("alice", 10, midnight - 1)
    with pytest.raises(QuotaExceeded) as raised:
        quota.reserve("alice", 1, midnight - 1)
    assert raised.value.headers == {"Retry-After": "1"}
    quota.reserve("alice", 10, midnight)
    assert (_used(table), _used(table, date="2025-06-16")) == (10, 10)


def test_owners_do_not_pay_for_each_other(quota: QuotaStore, table: Table) -> None:
    owners = ["alice", "alice#QUOTA", "alice%23QUOTA", "ali ce", "álice", "x" * 255]
    for owner in owners:
        quota.reserve(owner, 10, NOW)
    assert [_used(table, owner) for owner in owners] == [10] * len(owners)


def test_a_count_goes_by_itself(quota: QuotaStore, table: Table) -> None:
    quota.reserve("alice", 1, NOW)
    item = table.get(QUOTA.key(userId="alice", date=TODAY))
    assert item
    assert item["purgeAt"] == NOW + 2 * DAY


@pytest.mark.parametrize(
    "incident", [lose_request, lose_response, throttle, fail], ids=lambda incident: incident.__name__
)
def test_a_fault_that_passes_counts_once(quota: QuotaStore, table: Table, incident: Any) -> None:
    line = FaultLine(table.client, transport=botocore_stubber)
    for count in (3, 7):  # below the cap, and up to it: counted twice, it would be refused
        line.arm(incident, at=0)
        quota.reserve("alice", count, NOW)
    assert _used(table) == 10


@pytest.mark.parametrize(("incident", "error"), [(throttle, Unavailable), (conflict, WriteContention)])
def test_a_fault_that_stays_is_said_and_counts_nothing(
    quota: QuotaStore, table: Table, incident: Incident, error: type[Exception]
) -> None:
    line = FaultLine(table.client, transport=botocore_stubber)
    line.arm(incident)
    with pytest.raises(error):
        quota.reserve("alice", 1, NOW)
    line.disarm()
    assert _used(table) == 0
