"""SQS messages, and processors of the batches that Lambda passes to a queue's consumer.

SQS delivers a message at least once, so handlers must be idempotent. Only FIFO queues deliver in order, and only within a group.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
"""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, SqsFifoPartialProcessor
from aws_lambda_powertools.utilities.batch.base import FailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.aws.sqs import BadMessage
from shared.core.errors import TRANSIENT_ERRORS, NewerSchema, ServiceError
from shared.core.telemetry import service_logger, use_correlation_id


class Message(SQSRecord):
    """SQS message with a JSON object as its body. Extends Powertools' class."""

    @cached_property
    def json_body(self) -> dict[str, Any]:
        """Parsed body of the message. Raises BadMessage if the body is not a JSON object."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise BadMessage("The message is not a JSON object.")
        return body

    @property
    def is_readable(self) -> bool:
        """Whether the body is a JSON object."""
        try:
            return self.json_body is not None
        except BadMessage:
            return False

    @property
    def correlation_id(self) -> str | None:
        """Correlation id of the request that caused the message; `None` if the message has none."""
        id_ = self.json_body.get("correlationId") if self.is_readable else None
        return id_ if isinstance(id_, str) else None


class MessageProcessor(BatchProcessor):
    """Processor of a batch of messages. Logs each failed message with the correlation id of its request.

    Extends Powertools' processor, but does not raise an exception if all messages fail. SQS redelivers the messages in
    either case, but an exception would count as an error of the function.

        process(event, lambda message: print(message.json_body), MessageProcessor())
    """

    def __init__(self) -> None:
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)

    def __call__(
        self, records: list[dict[str, Any]], handler: Callable[[Message], object], lambda_context: Any = None
    ) -> "MessageProcessor":
        """Set the batch and the handler. The handler is called with one message at a time."""
        super().__call__(records, _logged(handler), lambda_context)
        return self


class BatchedProcessor(BatchProcessor):
    """Processor whose handler receives all messages of a batch in one call, so that it can combine their DynamoDB
    requests.

    If the handler raises Unavailable or WriteContention, all messages fail. After any other error, the processor calls
    the handler again with each half of the batch. It does the same after NewerSchema, although that is a subclass of
    Unavailable. Thus a few calls isolate a message that always fails, and the other messages succeed.
    """

    def __init__(self) -> None:
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)

    def process(self) -> list[tuple[Any, ...]]:
        """Handle the messages; return one result per message. Messages that are not JSON objects fail."""
        messages = [Message(record) for record in self.records]
        unreadable = [
            self._fail(message, BadMessage("The message is not a JSON object."))
            for message in messages
            if not message.is_readable
        ]
        return [*unreadable, *self._handle([message for message in messages if message.is_readable])]

    def _handle(self, messages: Sequence[Message]) -> list[tuple[Any, ...]]:
        if not messages:
            return []
        try:
            self.handler(messages)
        except Exception as error:  # any error, including a bug: SQS redelivers the messages
            if len(messages) == 1 or (isinstance(error, TRANSIENT_ERRORS) and not isinstance(error, NewerSchema)):
                return [self._fail(message, error) for message in messages]
        else:
            return [self.success_handler(message.raw_event, None) for message in messages]
        middle = len(messages) // 2
        return [*self._handle(messages[:middle]), *self._handle(messages[middle:])]

    def _fail(self, message: Message, error: Exception) -> FailureResponse:
        with use_correlation_id(message.correlation_id):
            _log(message, error)
        return self.failure_handler(message, (type(error), error, error.__traceback__))


class GroupProcessor(SqsFifoPartialProcessor):
    """Processor of a FIFO queue, whose handler receives all messages of a group in one call. Extends Powertools' processor.

    If the handler raises Unavailable or WriteContention, the whole group fails. After any other error, the processor
    calls the handler again with one message at a time. SQS redelivers the first message that fails and all later
    messages of its group.
    """

    def __init__(self) -> None:
        super().__init__(skip_group_on_error=True)
        self.raise_on_entire_batch_failure = False

    def __call__(
        self, records: list[dict[str, Any]], handler: Callable[[Sequence[Message]], object], lambda_context: Any = None
    ) -> "GroupProcessor":
        """Set the batch and the handler. The handler is called with the messages of one group."""
        self._handle_group = handler
        super().__call__(records, _logged(lambda message: handler([message])), lambda_context)
        return self

    def process(self) -> list[tuple[Any, ...]]:
        """Handle the messages of each group; return one result per message."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for record in self.records:
            groups.setdefault(record["attributes"]["MessageGroupId"], []).append(record)
        return [result for records in groups.values() for result in self._process_group(records)]

    def _process_group(self, records: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
        messages = list(takewhile(lambda message: message.is_readable, map(Message, records)))
        try:
            if messages:
                self._handle_group(messages)
        except TRANSIENT_ERRORS as error:
            _log(messages[0], error)
            reason = (type(error), error, error.__traceback__)
            return [self.failure_handler(Message(record), reason) for record in records]
        except Exception:  # any error, including a bug: handle one message at a time, to find the message that fails
            messages = []
        done = [self.success_handler(message.raw_event, None) for message in messages]
        unprocessed = (self._process_record(record) for record in records[len(messages) :])  # type: ignore[no-untyped-call]
        return [*done, *unprocessed]


def _logged(handler: Callable[[Message], object]) -> Callable[[SQSRecord], object]:
    """Return a function that calls `handler` with one message, logs its error, and raises it again."""

    def handle(record: SQSRecord) -> object:
        message = Message(record.raw_event)
        with use_correlation_id(message.correlation_id):
            try:
                return handler(message)
            except Exception as error:
                _log(message, error)
                raise

    return handle


def _log(message: Message, error: Exception) -> None:
    # The body is not logged, because it may contain confidential data.
    reason = error.detail if isinstance(error, ServiceError) else f"{type(error).__name__}: {error}"
    details = {"message_id": message.message_id, "reason": reason, "cause": repr(error.__cause__)}
    if isinstance(error, (BadMessage, *TRANSIENT_ERRORS)):
        service_logger().warning("message failed", extra=details)
    else:
        service_logger().exception("message failed", exc_info=error, extra=details)
