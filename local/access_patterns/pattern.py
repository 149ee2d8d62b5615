"""Definition of an access pattern."""

from dataclasses import dataclass

from shared.schema import Index


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


FOUR_PARTITIONS = "Four partitions accept four times the writes of one; they are read concurrently."
READ_FIRST = "The read checks the caller's permission, and returns the state that the change starts from."
ENTRIES_TOO = (
    "The read checks the caller's permission, and returns the state that the change starts from. The transaction updates the tag "
    "entries with the video, so that a published video is listed under its tags immediately."
)
CHECK_ACCESS = "The first read checks whether the caller may see the result."
