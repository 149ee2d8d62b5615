"""Conversion of DynamoDB errors, from the lean client and from boto3, to the exceptions in shared.core.errors."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.aws.lean.client import ErrorResponse, NotSent, ResponseLost
from shared.core.attributes import Item, read_item
from shared.core.errors import ContentTooLarge, InternalError, NotApplied, Throttled, Unavailable, WriteContention

_THROTTLED = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException"})
_BUSY = frozenset({"InternalServerError", "RequestTimeout", "ServiceUnavailable", "TransactionInProgressException"})
_THROTTLED_REASONS = frozenset({"ProvisionedThroughputExceeded", "ThrottlingError"})


class ConditionFailed(Exception):
    """The condition of a write was false.

    `item` is the current item, or `None` if it does not exist. `position` is the write's position in its transaction, from 0.
    """

    def __init__(self, item: Item | None, position: int = 0) -> None:
        super().__init__(f"the condition of write {position} failed")
        self.item = item
        self.position = position


class TransactionConflict(WriteContention):
    """Other writers were changing one of the items at every attempt. Nothing was written."""


def translate_errors(operation: Callable[[], Any]) -> Any:
    """Call `operation` and return its response. Convert errors of either DynamoDB client to exceptions of this service."""
    try:
        return operation()
    except (ErrorResponse, *of_botocore("ClientError")) as error:
        raise _translate(error.response) from error
    except (NotSent, *of_botocore("ConnectTimeoutError", "EndpointConnectionError")) as error:
        raise NotApplied from error
    except (ResponseLost, *of_botocore("BotoCoreError")) as error:  # time-outs and lost connections
        raise Unavailable from error


def of_botocore(*names: str) -> tuple[Any, ...]:
    """Return exception classes of botocore by name, for an `except` clause.

    Returns an empty tuple if botocore is not imported, because its exceptions cannot occur in that case.
    """
    exceptions = sys.modules.get("botocore.exceptions")
    return tuple(getattr(exceptions, name) for name in names) if exceptions else ()


def _translate(response: Mapping[str, Any]) -> Exception:
    code, message = response["Error"]["Code"], response["Error"].get("Message", "")
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(_returned_item(response))
    if code == "TransactionCanceledException":
        return _translate_cancellation(response.get("CancellationReasons", []))
    if code == "TransactionConflictException":
        return TransactionConflict()
    if code in _THROTTLED and _is_hot(response):
        return Throttled()
    if code in _THROTTLED or code == "RequestLimitExceeded":
        return NotApplied()
    # Server errors of DynamoDB have many codes, and a proxy's error has none.
    if code in _BUSY or response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return Unavailable()
    if code == "ValidationException" and "item size" in message.lower():
        return ContentTooLarge("The item would exceed 400 KB, the limit of DynamoDB. Send less.")
    return InternalError(f"DynamoDB refused a request with {code}")


def _is_hot(response: Mapping[str, Any]) -> bool:
    """Return whether DynamoDB throttled a single partition, and not the whole table, index or account. True without reasons.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    """
    # The two exceptions spell the field differently. Older emulators return no reasons.
    reasons = response.get("throttlingReasons") or response.get("ThrottlingReasons") or ()
    return not reasons or any("KeyRange" in str(reason.get("reason")) for reason in reasons)


def _translate_cancellation(reasons: Sequence[Mapping[str, Any]]) -> Exception:
    for position, reason in enumerate(reasons):
        if reason.get("Code") == "ConditionalCheckFailed":
            return ConditionFailed(_returned_item(reason), position)
    codes = {str(reason.get("Code")) for reason in reasons}
    if "TransactionConflict" in codes:
        return TransactionConflict()
    if codes & _THROTTLED_REASONS:
        return NotApplied()
    if any("item size" in str(reason.get("Message", "")).lower() for reason in reasons):
        return ContentTooLarge("The item would exceed 400 KB, the limit of DynamoDB. Send less.")
    return InternalError(f"DynamoDB cancelled a transaction with {sorted(codes)}")


def _returned_item(holder: Mapping[str, Any]) -> Item | None:
    item = holder.get("Item")
    return read_item(item) if item else None
