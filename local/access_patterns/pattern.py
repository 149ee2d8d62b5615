"""Definition of an access pattern."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.schema import Index

OWN_GOAL_MS, TRIP_GOAL_MS = 30, 20
"""Goals at p99 in milliseconds, without cold starts: for gateway and function together, and for a round trip to DynamoDB."""


def round_trips(operations: Sequence[str]) -> int:
    """Return the number of sequential round trips to DynamoDB. Consecutive queries run in parallel and count as one."""
    before = [None, *operations]
    return sum((last, operation) != ("Query", "Query") for last, operation in zip(before, operations, strict=False))


@dataclass(frozen=True)
class AccessPattern:
    """Query of a client and the DynamoDB operations that serve it."""

    purpose: str
    """Purpose of the request, as a short phrase."""
    request: str
    """Method and path of the API, or the event that triggers a background function. Unique."""
    operations: tuple[str, ...]
    """DynamoDB operations of one request on its normal path, in order; a test asserts exactly these."""
    index: Index | None
    key: str
    """Keys that the operations address, in order, and their conditions."""
    cost: str
    """On-demand units for small items (reads up to 4 KB, writes up to 1 KB)."""
    reason: str = ""
    """Reason for requests and units beyond the minimum of any design; empty if there are none."""

    @property
    def p99_goal(self) -> int | None:
        """Goal at p99 in milliseconds, without cold starts and S3; `None` unless a client waits for the response."""
        is_http = self.request.partition(" ")[2].startswith("/")
        return OWN_GOAL_MS + TRIP_GOAL_MS * round_trips(self.operations) if is_http else None


FOUR_PARTITIONS = "Four partitions accept four times the writes of one; they are read concurrently."
READ_FIRST = "The read checks the caller's permission, and returns the state that the change starts from."
ENTRIES_TOO = (
    "The read checks the caller's permission, and returns the state that the change starts from. The transaction updates the tag "
    "entries with the video, so that a published video is listed under its tags immediately."
)
CHECK_ACCESS = "The first read checks whether the caller may see the result."
