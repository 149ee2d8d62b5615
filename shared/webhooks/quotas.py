"""Concurrency quotas of deliveries: the maximum number of an owner's webhooks that workers serve concurrently.

Webhooks with slow receivers count against two other quotas instead. The first quota limits the slow receivers of one
owner, so that the owner's other webhooks need not wait. The second quota limits the slow receivers of all owners
together, so that workers remain free for quick receivers.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from shared.aws.leases import is_leased
from shared.aws.quotas import Claim, Quotas
from shared.webhooks.delivery_state import LONGEST_LEASE, QUEUED, DeliveryStateStore

if TYPE_CHECKING:
    from shared.entities import WebhookState

QUICK, SLOW, ALL_SLOW = "deliveries", "slow-deliveries", "all-slow-deliveries"
"""Names of the quotas: for an owner's quick receivers, for an owner's slow receivers, and for the slow receivers of all
owners."""
EVERYBODY = "*"
"""Value of `owner` in claims on the quota for the slow receivers of all owners."""
SLOW_MS = 2000
"""A receiver counts as slow if its average response time is at least this number of milliseconds."""
WEIGHT = 0.25
"""Weight, from 0 to 1, of the newest responses in the average response time.

With this weight, one run with responses of 9 s makes a quick receiver slow. After several runs with quick responses, it
is quick again.
"""


class DeliveryQuotas(Quotas[str]):
    """Concurrency quotas of deliveries to webhooks. `clock` returns epoch seconds.

    A webhook's slot counts as released if the webhook is not leased, because then no worker serves the webhook.
    """

    def __init__(
        self, states: DeliveryStateStore, most: Mapping[str, int], clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(states.table, most)
        self._states = states
        self._clock = clock

    def _is_open(self, name: str) -> bool:
        return is_leased(self._states.read(name) or {}, self._clock(), LONGEST_LEASE)

    def _waiting(self, claim: Claim) -> str:
        return claim.name  # an unnecessary message is harmless


def is_slow(average: int | None) -> bool:
    """Return whether a receiver with this average response time (milliseconds) counts as slow.

    `average` is `None` before the receiver's first response. The receiver then counts as quick.
    """
    return average is not None and average >= SLOW_MS


def average_ms(before: int | None, newest: float) -> int:
    """Return the moving average of response times in milliseconds. `before` is the previous average; `None` before the
    first response."""
    return round(newest if before is None else before + WEIGHT * (newest - before))


def claims_of(state: "WebhookState", owner: str, now: int) -> list[Claim]:
    """Return the quota claims that deliveries to a webhook need, in the order in which a worker makes them."""
    webhook_id, since = state["webhookId"], state.get(QUEUED, now)
    quotas = [(owner, SLOW), (EVERYBODY, ALL_SLOW)] if is_slow(state.get("answerMs")) else [(owner, QUICK)]
    return [Claim(quota_owner, queue, webhook_id, since) for quota_owner, queue in quotas]
