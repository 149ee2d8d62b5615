"""How many jobs of one owner may be with the workers at a time, so that nobody's films wait for another's.

A queue hands out what was sent first. So the router sends no more than an owner's share, and the others of that owner wait
in the table, in the order in which they were queued; when one ends, the next is sent. An owner who has sent nothing yet thus
finds at most a share of each other owner before it. Waiting does not count as an attempt, and no worker or transcoder has to know.

A claim that was never given up, because a record of the stream was lost or replayed, is found when its owner's next job is
refused: now and then all claims are compared with their jobs. That next job comes at the latest when the sweeper has the
message of one that waits sent once more.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, key_of
from shared.core.attributes import Item
from shared.films.job import PENDING
from shared.kinds import DAY, MINUTE, kind_of
from shared.schema import JOB, PARTITION_KEY, SCHEMA_VERSION, SHARE, TTL_ATTRIBUTE, WAITING

CHECK_SECONDS = MINUTE
KEPT_SECONDS = 30 * DAY
"""Longer than any job may be open."""
PAGE = 10


class ShareStore:
    """Claims by owner and queue in the table; `most` is how many jobs of one owner may be with a queue's workers."""

    def __init__(self, table: Table, most: Mapping[str, int]) -> None:
        self.table = table
        self.most = most

    def claim(self, job: Item, now: int) -> bool:
        """Whether a queued job may be sent now; else it waits for another of its owner's to end. May be repeated."""
        if self._is_claimed(job, now):
            return True
        with suppress(ConditionFailed):  # it waits already
            self.table.write(self.table.put(_waiting(job, now), condition=ABSENT))
        # One may have ended meanwhile, and have looked for the next before this one was there.
        if not self._is_claimed(job, now):
            return False
        self.table.delete(_waiting_key(job))
        return True

    def free(self, before: Item | None, job: Item, now: int) -> Iterator[Item]:
        """Give up the claim of a job that has ended, and yield the jobs to send instead. May be repeated.

        Each counts as sent when the next is asked for: if sending one fails, do not ask for the next.
        """
        if before is not None and before["state"] == "queued":
            self.table.delete(_waiting_key(before))  # it ended before it was begun
        self._give_up(job, {_name(job)})
        while waiting := self._first(job):
            for entry in waiting:
                key = key_of(entry)
                next_job = self._job(entry["job"])
                if next_job and next_job["state"] == "queued" and _waiting_key(next_job) == key:
                    if not self._is_claimed(next_job, now):
                        return
                    yield next_job
                self.table.delete(key)

    def _is_claimed(self, job: Item, now: int) -> bool:
        """Add a job to those of its owner that are with the workers, if there is room; whether it is one of them."""
        write = self.table.update(
            _share_key(job),
            Expression.of(
                "ADD #jobs :jobs SET #checkedAt = if_not_exists(#checkedAt, :now), #purgeAt = :purgeAt, "
                "#schemaVersion = :schemaVersion",
                jobs={_name(job)},
                now=now,
                purgeAt=now + KEPT_SECONDS,
                schemaVersion=SCHEMA_VERSION,
            ),
            condition=Expression.of(
                "attribute_not_exists(#jobs) OR contains(#jobs, :job) OR size(#jobs) < :most",
                job=_name(job),
                most=self.most[_queue(job)],
            ),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            share = failure.item or {}
            if now - share.get("checkedAt", now) < CHECK_SECONDS:
                return False
            self._check(job, share["jobs"], now)
            return self._is_claimed(job, now)
        return True

    def _check(self, job: Item, names: set[str], now: int) -> None:
        """Give up the claims of jobs that are not open any more."""
        gone = {name for name in names if (self._job(name) or {}).get("state") not in PENDING}
        if gone:
            self._give_up(job, gone)
        change = Expression.of("SET #checkedAt = :now", now=now)
        self.table.write(self.table.update(_share_key(job), change))  # to one time or the other: either will do

    def _give_up(self, job: Item, names: set[str]) -> None:
        for name in names:
            write = self.table.update(
                _share_key(job),
                Expression.of("DELETE #jobs :jobs", jobs={name}),
                condition=Expression.of("contains(#jobs, :job)", job=name),
            )
            with suppress(ConditionFailed):  # given up before, or never had
                self.table.write(write)

    def _first(self, job: Item) -> list[Item]:
        """The waiting jobs of the owner, those that have waited longest first; at most PAGE."""
        return self.table.query(
            index=None,
            condition=Expression.of(
                "#pk = :pk AND begins_with(#sk, :sk)",
                pk=_waiting_key(job)[PARTITION_KEY],
                sk=WAITING.sk.partition("{queuedAt}")[0].format(queue=_queue(job)),
            ),
            limit=PAGE,
            consistent=True,
        ).items

    def _job(self, name: str) -> Item | None:
        video_id, _, kind = name.partition("/")
        return self.table.get(JOB.key(videoId=video_id, kind=kind), consistent=True)


def _queue(job: Item) -> str:
    return kind_of(job["kind"]).queue


def _name(job: Item) -> str:
    return f"{job['videoId']}/{job['kind']}"


def _share_key(job: Item) -> dict[str, str]:
    return SHARE.key(userId=job["owner"], queue=_queue(job))


def _waiting_key(job: Item) -> dict[str, str]:
    return WAITING.key(
        userId=job["owner"],
        queue=_queue(job),
        queuedAt=f"{job['queuedAt']:012d}",
        videoId=job["videoId"],
        kind=job["kind"],
    )


def _waiting(job: Item, now: int) -> Item:
    return {
        **_waiting_key(job),
        "job": _name(job),
        TTL_ATTRIBUTE: now + KEPT_SECONDS,
        "schemaVersion": SCHEMA_VERSION,
    }
