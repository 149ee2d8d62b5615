"""Factory for all SQS queues of the service."""

from typing import Any

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.encryption import Encryption

RECEIVES = 5
"""Maximum number of deliveries of a message in a standard queue. After the last one, SQS moves the message to the
dead-letter queue."""

FIFO_RECEIVES = 1000
"""Maximum deliveries of a message in a FIFO queue, the highest value that SQS allows.

A message that moves to the dead-letter queue loses its order, because the worker then processes later messages of the
group. Therefore a failing message blocks its group instead, and the alarm on the oldest message reports this.
"""

VISIBILITY_FACTOR = 6
"""Visibility timeout as a multiple of the worker's timeout.

Lambda's documentation recommends six, because Lambda retries a batch after throttling.
"""


class WorkQueue(Construct):
    """A queue and its dead-letter queue. infra/operations_stack.py adds the alarms.

    The dead-letter queue retains messages for 14 days. In that time, an operator can find the cause and move the
    messages back (`make redrive`). Both queues reject plain HTTP.

    With `fifo`, messages of a group stay in order, and a group does not delay other groups. The queue then uses SQS's
    high throughput mode, in which the throughput limit applies to each group separately.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        encryption: Encryption,
        worker_timeout: Duration | None = None,
        visibility: Duration | None = None,
        fifo: bool = False,
    ) -> None:
        super().__init__(scope, id_)
        if visibility is None:
            if worker_timeout is None:
                raise ValueError("Queue requires `worker_timeout` or `visibility`.")
            visibility = Duration.seconds(VISIBILITY_FACTOR * int(worker_timeout.to_seconds()))
        shared: dict[str, Any] = {"enforce_ssl": True, **_encrypted(encryption.data), **(_IN_ORDER if fifo else {})}
        self.dead_letters = sqs.Queue(self, "DeadLetters", retention_period=Duration.days(14), **shared)
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=visibility,
            # Shorter than the dead-letter queue's retention, which counts from the time when the message was first
            # sent.
            retention_period=Duration.days(4),
            receive_message_wait_time=Duration.seconds(20),
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=FIFO_RECEIVES if fifo else RECEIVES, queue=self.dead_letters
            ),
            **shared,
        )
        # tools/redrive.py and transcoders find the queues by these outputs.
        stack, name = Stack.of(self), id_.removesuffix("Queue")
        CfnOutput(stack, f"{name}QueueUrl", description="Queue of the worker", value=self.queue.queue_url)
        CfnOutput(
            stack,
            f"{name}DeadLettersUrl",
            description="Dead-letter queue: messages that failed repeatedly",
            value=self.dead_letters.queue_url,
        )


_IN_ORDER: dict[str, Any] = {
    "fifo": True,
    # SQS drops duplicates that are sent within five minutes. Most messages that the router sends again are among them.
    "content_based_deduplication": True,
    "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
    "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
}
"""Properties of a FIFO queue with high throughput.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html
"""


def _encrypted(key: kms.IKey | None) -> dict[str, Any]:
    if key is None:
        return {"encryption": sqs.QueueEncryption.SQS_MANAGED}
    return {"encryption": sqs.QueueEncryption.KMS, "encryption_master_key": key}
