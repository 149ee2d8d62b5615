"""Definition of an access pattern."""

from dataclasses import dataclass

from shared.schema import Index


@dataclass(frozen=True)
class AccessPattern:
    """Query of a client and the DynamoDB operations that serve it."""

    question: str
    request: str
    operations: tuple[str, ...]
    """DynamoDB operations of one request on its normal path, in order; a test asserts exactly these."""
    index: Index | None
    key: str
    cost: str
    """On-demand units for small items (reads up to 4 KB, writes up to 1 KB)."""
    beyond: str = ""
    """Benefit of the requests and units beyond the minimum of any design; empty if there are none."""


FOUR_PARTITIONS = "Four partitions take four times the writes of one; they are read side by side."
READ_FIRST = "The read says who may change it, and what it is changed from."
ENTRIES_TOO = (
    "The read says who may change it, and what it is changed from; the transaction moves the entries of tags with the video, "
    "so that whoever publishes a video finds it by them at once."
)
WHO_ASKS = "What is asked about is read first: it says who may see the answer."
