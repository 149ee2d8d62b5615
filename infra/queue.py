"""Every queue of the service is made here."""

from typing import Any

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.encryption import Encryption

RECEIVES = 5
"""How often a message is delivered before it moves to the dead-letter queue."""

FIFO_RECEIVES = 1000
"""The most that SQS takes: a message that moved to the dead-letter queue would be overtaken by later ones of its group. So
it holds these up for as long as it fails, which the alarm on the oldest message reports."""

VISIBILITY_FACTOR = 6
"""How much longer than its worker may run a message stays hidden: Lambda's own advice, because Lambda tries again by
itself while it is throttled."""


class WorkQueue(Construct):
    """A queue, and the dead-letter queue beside it; infra/operations_stack.py has the alarm.

    A message that is delivered too often is kept for 14 days: long enough to find out why, and to move it back
    (`make redrive`). Both refuse plain HTTP.

    `fifo`: the messages of a group stay in order; groups do not wait for each other, and each may have as many messages as a
    queue without order.
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
                raise ValueError("Give the worker's timeout, or how long messages stay hidden.")
            visibility = Duration.seconds(VISIBILITY_FACTOR * int(worker_timeout.to_seconds()))
        shared: dict[str, Any] = {"enforce_ssl": True, **_encrypted(encryption.data), **(_IN_ORDER if fifo else {})}
        self.dead_letters = sqs.Queue(self, "DeadLetters", retention_period=Duration.days(14), **shared)
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=visibility,
            # Shorter than the dead-letter queue's: there, a message's age counts from when it was first sent.
            retention_period=Duration.days(4),
            receive_message_wait_time=Duration.seconds(20),
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=FIFO_RECEIVES if fifo else RECEIVES, queue=self.dead_letters
            ),
            **shared,
        )
        # By these names tools/redrive.py finds both, and transcoders find theirs.
        stack, name = Stack.of(self), id_.removesuffix("Queue")
        CfnOutput(stack, f"{name}QueueUrl", description="Messages wait here", value=self.queue.queue_url)
        CfnOutput(
            stack,
            f"{name}DeadLettersUrl",
            description="Messages that failed too often",
            value=self.dead_letters.queue_url,
        )


_IN_ORDER: dict[str, Any] = {
    "fifo": True,
    # The same message within five minutes is one: most of what the router sends again ends here.
    "content_based_deduplication": True,
    "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
    "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
}
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html"""


def _encrypted(key: kms.IKey | None) -> dict[str, Any]:
    if key is None:
        return {"encryption": sqs.QueueEncryption.SQS_MANAGED}
    return {"encryption": sqs.QueueEncryption.KMS, "encryption_master_key": key}
