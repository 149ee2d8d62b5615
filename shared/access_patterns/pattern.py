"""What an access pattern says."""

from dataclasses import dataclass

from shared.schema import Index


@dataclass(frozen=True)
class AccessPattern:
    """One question that clients ask and the one way in which DynamoDB answers it."""

    question: str
    request: str
    operations: tuple[str, ...]
    """The DynamoDB operations of one request on its normal path, in order; a test asserts exactly these."""
    index: Index | None
    key: str
    cost: str
    """Units on demand for small items (reads up to 4 KB, writes up to 1 KB)."""
