"""How many jobs an owner has started today, so that nobody's films cost more than was meant.

Jobs are reserved before they start, and stay reserved even if nothing comes of them: too many are never let
through, and the next day (UTC) begins at 0.
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
    """Counts by owner and day in the table; `jobs_per_day` is the most that one owner may start."""

    def __init__(self, table: Table, jobs_per_day: int) -> None:
        self.table = table
        self.jobs_per_day = jobs_per_day

    def reserve(self, owner: str, count: int, now: int) -> None:
        """Count `count` jobs for the owner: one UpdateItem that adds them, if there is room for all.

        Raises QuotaExceeded, and WriteContention when others reserve at every attempt.
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
            # A reservation whose answer was lost is sent again, and must not count twice.
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
            f"One owner may start {self.jobs_per_day} jobs a day (UTC); too few are left today for this.",
            headers={"Retry-After": str(DAY - now % DAY)},
        )
