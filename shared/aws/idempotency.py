"""Idempotency keys: a retried POST is applied once and returns the response of the first request.

A record in the table contains this response. The transaction that writes the change also writes the record.
https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import absent_or_purged, is_own_write
from shared.core.attributes import Item
from shared.core.caller import IdempotentRequest, request_id_of
from shared.core.errors import KeyReused, RequestInFlight
from shared.schema import IDEMPOTENCY, SCHEMA_VERSION, TTL_ATTRIBUTE

LIFETIME_SECONDS = 24 * 3600
"""Seconds until an idempotency record expires."""


def record(table: Table, once: IdempotentRequest, response: dict[str, Any]) -> Write:
    """Return the write that stores `response` under the idempotency key, on condition that no unexpired record exists."""
    item = {
        **_key(once),
        "fingerprint": once.fingerprint,
        "answer": zlib.compress(json.dumps(response, separators=(",", ":")).encode()),
        "schemaVersion": SCHEMA_VERSION,
        TTL_ATTRIBUTE: once.now + LIFETIME_SECONDS,
    }
    return table.put(once.caller.signed(item), condition=absent_or_purged(once.now))


def find_stored_response(table: Table, once: IdempotentRequest | None) -> dict[str, Any] | None:
    """Return the stored response of an earlier request with this idempotency key.

    Returns `None` if no response is stored, or if `once` is `None`. Raises KeyReused if the earlier request had
    different content. Costs one consistent GetItem.
    """
    return _recorded(once, table.get(_key(once), consistent=True)) if once else None


def replay_response(once: IdempotentRequest, item: Item | None) -> dict[str, Any]:
    """Return the response that the idempotency record `item` contains.

    Call this function if the condition of the write that `record` returned is false. Raises RequestInFlight if `item`
    is `None` or has expired, and KeyReused if the earlier request had different content.
    """
    response = _recorded(once, item)
    if response is None:
        raise in_flight()
    return response


def _key(once: IdempotentRequest) -> Key:
    return IDEMPOTENCY.key(subject=once.caller.subject, operation=once.operation, key=once.key)


def _recorded(once: IdempotentRequest, item: Item | None) -> dict[str, Any] | None:
    if item is None or item[TTL_ATTRIBUTE] <= once.now:
        return None
    if item["fingerprint"] != once.fingerprint:
        raise KeyReused("The Idempotency-Key was used for a different request. Send a new key.")
    first = request_id_of(item)
    if first is not None:
        once.replays.append(first)
    response: dict[str, Any] = json.loads(zlib.decompress(item["answer"]))
    return response


def in_flight(
    reason: str = "A request with the same Idempotency-Key is in progress.",
) -> RequestInFlight:
    """Return the error, with `Retry-After: 1`, for a request that conflicts with another request in flight."""
    return RequestInFlight(f"{reason} Retry the request.", headers={"Retry-After": "1"})


def carry_out(
    table: Table,
    writes: Sequence[Write],
    new: Mapping[str, Any],
    response: dict[str, Any],
    once: IdempotentRequest | None = None,
    *,
    resource: str,
) -> dict[str, Any]:
    """Execute the writes of a change in one transaction, and return `response`.

    `once` is the request's idempotency key, or `None`. With a key, the transaction also stores `response`. If an
    earlier request with the same key was applied, this function returns the response of that request instead.

    `new` is the item of the first write. If a condition is false, but the stored item has the `writeId` of `new`, an
    earlier attempt was applied, and the call succeeds.

    Raises ConditionFailed if a condition is false for another reason. The error's `position` is the write's index in
    `writes`. Raises KeyReused if an earlier request with the same key had different content.

    If another request is changing the items, the error depends on the key: RequestInFlight with a key, and
    TransactionConflict without one. `resource` names the items in the message of RequestInFlight, such as `the
    playlist`.
    """
    records = [record(table, once, response)] if once else []
    try:
        table.write_all([*records, *writes])
    except ConditionFailed as failure:
        if once and failure.position == 0:
            return replay_response(once, failure.item)
        if not is_own_write(failure.item, new):
            raise ConditionFailed(failure.item, failure.position - len(records)) from failure
    except TransactionConflict as conflict:
        if once:
            raise in_flight(f"Another request is changing {resource}.") from conflict
        raise
    return response
