"""Every queue of the service is made here."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct

RECEIVES = 5
"""How often a message is delivered before it is set aside."""

VISIBILITY_FACTOR = 6
"""How much longer than its worker may run a message stays hidden: Lambda's own advice, because Lambda tries again by
itself while it is throttled."""


class WorkQueue(Construct):
    """A queue, the dead-letter queue beside it, and an alarm that tells when something lies in there.

    A message that is delivered too often is kept for 14 days: long enough to find out why, and to move it back
    (`aws sqs start-message-move-task`). Both are encrypted with keys that SQS owns: no charge, no call to KMS.
    """

    def __init__(
        self, scope: Construct, id_: str, *, worker_timeout: Duration | None = None, visibility: Duration | None = None
    ) -> None:
        super().__init__(scope, id_)
        if visibility is None:
            if worker_timeout is None:
                raise ValueError("Give the worker's timeout, or how long messages stay hidden.")
            visibility = Duration.seconds(VISIBILITY_FACTOR * int(worker_timeout.to_seconds()))
        dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=Duration.days(14),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=visibility,
            # Shorter than the dead-letter queue's: there, a message's age counts from when it was first sent.
            retention_period=Duration.days(4),
            receive_message_wait_time=Duration.seconds(20),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=RECEIVES, queue=dead_letters),
        )
        dead_letters.metric_approximate_number_of_messages_visible(
            period=Duration.minutes(5), statistic="Maximum"
        ).create_alarm(
            self,
            "Alarm",
            alarm_description=f"Messages that no worker could handle lie in the dead-letter queue of {id_}.",
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
