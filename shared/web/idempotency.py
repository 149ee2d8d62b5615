"""Idempotency keys: a POST that is retried happens once and gets the same answer.

The record is written in the same transaction as the change itself, so that neither exists without the other.
https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import absent_or_purged, is_ours
from shared.core.attributes import Item
from shared.core.caller import Caller, request_of
from shared.core.errors import KeyReused, RequestInFlight
from shared.schema import IDEMPOTENCY, SCHEMA_VERSION, TTL_ATTRIBUTE

LIFETIME_SECONDS = 24 * 3600
LONGEST_KEY = 255


@dataclass(frozen=True)
class Once:
    """One request that must happen once: whose it is, what it does, its key and a digest of its content."""

    caller: Caller
    operation: str
    key: str
    fingerprint: str
    now: int
    replays: list[str] = field(default_factory=list)
    """Ids of the requests whose answers were given again."""

    @property
    def item_key(self) -> Key:
        """Where the record lies."""
        return IDEMPOTENCY.key(subject=self.caller.subject, operation=self.operation, key=self.key)

    def record(self, table: Table, answer: dict[str, Any]) -> Write:
        """The write that keeps the answer, unless a record is there that has not expired."""
        record = {
            **self.item_key,
            "fingerprint": self.fingerprint,
            "answer": zlib.compress(json.dumps(answer, separators=(",", ":")).encode()),
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: self.now + LIFETIME_SECONDS,
        }
        return table.put(self.caller.signed(record), condition=absent_or_purged(self.now))

    def recorded(self, record: Item | None) -> dict[str, Any] | None:
        """The answer that was given before, if any; raises KeyReused when it was to another request."""
        if record is None or record[TTL_ATTRIBUTE] <= self.now:
            return None
        if record["fingerprint"] != self.fingerprint:
            raise KeyReused("This Idempotency-Key was already used for another request; send a new one.")
        first = request_of(record)
        if first is not None:
            self.replays.append(first)
        answer: dict[str, Any] = json.loads(zlib.decompress(record["answer"]))
        return answer

    def replayed(self, record: Item | None) -> dict[str, Any]:
        """The answer in the record that kept this request from being carried out; raises RequestInFlight without one."""
        answer = self.recorded(record)
        if answer is None:
            raise in_flight()
        return answer


def in_flight(
    detail: str = "A request with this Idempotency-Key is still being carried out; try again.",
) -> RequestInFlight:
    """What to answer when another request is in the way at the moment."""
    return RequestInFlight(detail, headers={"Retry-After": "1"})


def carry_out(
    table: Table, writes: Sequence[Write], new: Item, answer: dict[str, Any], once: Once | None = None, *, what: str
) -> dict[str, Any]:
    """Carry out together the writes that make `new` of something; return the answer, or with `once` that of the first time.

    Raises ConditionFailed with the position among these writes, 0 being that of the item itself, and RequestInFlight when with
    `once` others are changing `what`, such as `the playlist`.
    """
    records = [once.record(table, answer)] if once else []
    try:
        table.write_all([*records, *writes])
    except ConditionFailed as failure:
        if once and failure.position == 0:
            return once.replayed(failure.item)
        if not is_ours(failure.item, new):
            raise ConditionFailed(failure.item, failure.position - len(records)) from failure
    except TransactionConflict as conflict:
        if once:
            raise in_flight(f"Another request is changing {what}; try again.") from conflict
        raise
    return answer
