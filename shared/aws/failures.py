"""What DynamoDB's refusals, and requests that were never answered, mean to the stores: errors of our own tree."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.aws.lean.client import AnswerLost, NotSent, Refused
from shared.core.attributes import Item, read_item
from shared.core.errors import ContentTooLarge, InternalError, NotApplied, Throttled, Unavailable, WriteContention

_THROTTLED = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException"})
_BUSY = frozenset({"InternalServerError", "RequestTimeout", "ServiceUnavailable", "TransactionInProgressException"})
_THROTTLED_REASONS = frozenset({"ProvisionedThroughputExceeded", "ThrottlingError"})


class ConditionFailed(Exception):
    """A write's condition did not hold; `item` is what stood in its way (None: no item)."""

    def __init__(self, item: Item | None, position: int = 0) -> None:
        super().__init__(f"the condition of write {position} failed")
        self.item = item
        self.position = position


class TransactionConflict(WriteContention):
    """Another write to one of the items was under way at every attempt; nothing has been written."""


def translating(operation: Callable[[], Any]) -> Any:
    """The answer to one request, with the errors of either client turned into ours."""
    try:
        return operation()
    except (Refused, *of_botocore("ClientError")) as error:
        raise _translated(error.response) from error
    except (NotSent, *of_botocore("ConnectTimeoutError", "EndpointConnectionError")) as error:
        raise NotApplied from error
    except (AnswerLost, *of_botocore("BotoCoreError")) as error:  # time-outs and connections that broke half-way
        raise Unavailable from error


def of_botocore(*names: str) -> tuple[Any, ...]:
    """Exceptions of botocore by their names, if anything has loaded it."""
    exceptions = sys.modules.get("botocore.exceptions")
    return tuple(getattr(exceptions, name) for name in names) if exceptions else ()


def _translated(response: Mapping[str, Any]) -> Exception:
    code, message = response["Error"]["Code"], response["Error"].get("Message", "")
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(_returned(response))
    if code == "TransactionCanceledException":
        return _cancelled(response.get("CancellationReasons", []))
    if code == "TransactionConflictException":
        return TransactionConflict()
    if code in _THROTTLED and _is_hot(response):
        return Throttled()
    if code in _THROTTLED or code == "RequestLimitExceeded":
        return NotApplied()
    # A fault of DynamoDB has many names, and none when a proxy answers in its place.
    if code in _BUSY or response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return Unavailable()
    if code == "ValidationException" and "item size" in message.lower():
        return ContentTooLarge("The item would be larger than 400 KB, the most that DynamoDB stores.")
    return InternalError(f"DynamoDB refused a request with {code}")


def _is_hot(response: Mapping[str, Any]) -> bool:
    """Whether one partition was throttled, and not the table, an index or the account as a whole.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    """
    # The two exceptions spell it differently. Older engines give no reasons.
    reasons = response.get("throttlingReasons") or response.get("ThrottlingReasons") or ()
    return not reasons or any("KeyRange" in str(reason.get("reason")) for reason in reasons)


def _cancelled(reasons: Sequence[Mapping[str, Any]]) -> Exception:
    for position, reason in enumerate(reasons):
        if reason.get("Code") == "ConditionalCheckFailed":
            return ConditionFailed(_returned(reason), position)
    codes = {str(reason.get("Code")) for reason in reasons}
    if "TransactionConflict" in codes:
        return TransactionConflict()
    if codes & _THROTTLED_REASONS:
        return NotApplied()
    if any("item size" in str(reason.get("Message", "")).lower() for reason in reasons):
        return ContentTooLarge("The item would be larger than 400 KB, the most that DynamoDB stores.")
    return InternalError(f"DynamoDB cancelled a transaction with {sorted(codes)}")


def _returned(holder: Mapping[str, Any]) -> Item | None:
    item = holder.get("Item")
    return read_item(item) if item else None
