"""Definition of an access pattern."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.schema import Index

OWN_GOAL_MS, TRIP_GOAL_MS = 30, 20
"""Latency goals at p99 in milliseconds, without cold starts. The first is for gateway and function together, the second
for one round trip to DynamoDB."""


def round_trips(operations: Sequence[str]) -> int:
    """Return the number of sequential round trips to DynamoDB. Consecutive Query operations run in parallel and count
    as one."""
    before = [None, *operations]
    return sum((last, operation) != ("Query", "Query") for last, operation in zip(before, operations, strict=False))


@dataclass(frozen=True)
class AccessPattern:
    """A client's request or an event, and the DynamoDB operations that serve it."""

    purpose: str
    """Purpose of the request, as a short phrase such as "Create a video"."""
    request: str
    """Method and path of the API, or the event that invokes a background function. No two patterns have the same
    value."""
    operations: tuple[str, ...]
    """Names of the DynamoDB operations in the order in which the request sends them, without retries. A test compares
    them with real requests."""
    index: Index | None
    key: str
    """Keys that the operations address, in the order of the operations, and the conditions on these keys."""
    cost: str
    """Consumed on-demand units, if each read returns at most 4 KB and each written item has at most 1 KB."""
    reason: str = ""
    """Reason why the pattern needs more requests or units than the minimum of any design. Empty if it needs only the
    minimum."""

    @property
    def p99_goal(self) -> int | None:
        """Latency goal at p99 in milliseconds, without cold starts and S3. `None` for background functions, because no
        client waits for them.
        """
        is_http = self.request.partition(" ")[2].startswith("/")
        return OWN_GOAL_MS + TRIP_GOAL_MS * round_trips(self.operations) if is_http else None


FOUR_PARTITIONS = "Four partitions accept four times the writes of one; they are read concurrently."
READ_FIRST = "The read checks the caller's permission, and returns the state that the change starts from."
ENTRIES_TOO = (
    "The read checks the caller's permission, and returns the state that the change starts from. The transaction also "
    "writes the tag entries, so that a published video is listed under its tags immediately."
)
CHECK_ACCESS = "The first read checks whether the caller may see the result."
