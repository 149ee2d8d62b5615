"""Daily job quota per owner, which limits the processing cost of one owner's uploads.

An upload reserves all its jobs before the first of them starts. A reservation is never released, even if its jobs do
not run. Therefore the owner cannot exceed the limit. The counter restarts at 0 each day (UTC).
"""

import time

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import new_write_id
from shared.core.errors import QuotaExceeded
from shared.schema import QUOTA, SCHEMA_VERSION

DAY = 24 * 3600


class QuotaStore:
    """Store of job counters, one per owner and day.

    `jobs_per_day` is the maximum number of jobs that one owner may start on one day.
    """

    def __init__(self, table: Table, jobs_per_day: int) -> None:
        self.table = table
        self.jobs_per_day = jobs_per_day

    def reserve(self, owner: str, count: int, now: int) -> None:
        """Reserve `count` jobs for the owner, all or none. Costs one conditional UpdateItem.

        Raises QuotaExceeded, and WriteContention if concurrent reservations defeat every attempt.
        """
        if count > self.jobs_per_day:
            raise self._exceeded(now)
        token = new_write_id()
        write = self.table.update(
            QUOTA.key(userId=owner, date=time.strftime("%Y-%m-%d", time.gmtime(now))),
            Expression.of(
                "ADD #jobs :count SET #last = :token, #purgeAt = :purgeAt, #schemaVersion = :schemaVersion",
                count=count,
                token=token,
                purgeAt=now + 2 * DAY,
                schemaVersion=SCHEMA_VERSION,
            ),
            # If the response is lost, the write is sent again. It must not reserve the jobs twice.
            condition=Expression.of(
                "(attribute_not_exists(#jobs) OR #jobs <= :room) AND (attribute_not_exists(#last) OR #last <> :token)",
                room=self.jobs_per_day - count,
                token=token,
            ),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            if failure.item is None or failure.item["last"] != token:
                raise self._exceeded(now) from failure

    def _exceeded(self, now: int) -> QuotaExceeded:
        return QuotaExceeded(
            f"The request exceeds the quota of {self.jobs_per_day} jobs per owner and day (UTC). Retry tomorrow.",
            headers={"Retry-After": str(DAY - now % DAY)},
        )
