"""Access patterns of webhooks."""

from local.access_patterns.pattern import READ_FIRST, AccessPattern
from shared.schema import (
    OWNER_CHANGES,
    RELATION_INDEX,
    SHARE,
    WAITING,
    WEBHOOK,
    WEBHOOK_ATTEMPTS,
    WEBHOOK_STATE,
    WEBHOOKS,
    follower_relation,
)

_HOOK = f"pk = {WEBHOOK.pk}, sk = {WEBHOOK.sk}"
_BOTH = f"{_HOOK} and sk = {WEBHOOK_STATE.sk}"
_LISTED = f"pk = {WEBHOOKS.pk}, sk = {WEBHOOKS.sk}"
_FENCE_WORKER = (
    "The read checks the owner, and returns the state that the change starts from. The checkpoint changes with the webhook. So later "
    "writes of a worker that read the old state fail."
)

WEBHOOKS_PATTERNS = (
    AccessPattern(
        "Create a webhook",
        "POST /v1/webhooks",
        ("GetItem", "TransactWriteItems"),
        None,
        f"pk = {OWNER_CHANGES.pk}, sk = TAIL in VideoAudit, or of the four logs of all changes; {_BOTH}, if absent; ADD on {_LISTED} if it "
        "has fewer than 20",
        "1 RRU, 8 WRU with the index; 4 RRU if it subscribes to all changes",
        reason="The subscription starts at the end of the log, so that it misses no later change. The transaction limits the number of a "
        "user's webhooks.",
    ),
    AccessPattern(
        "List a user's webhooks",
        "GET /v1/webhooks",
        ("GetItem", "BatchGetItem"),
        None,
        f"{_LISTED}; then {_BOTH} of each, consistent",
        "3 RRU for one webhook; 2 more with each further one",
        reason="The read is consistent, so that a client sees a webhook that it has just created. The response includes the checkpoint.",
    ),
    AccessPattern(
        "List webhooks that subscribe to all changes, or to a user's",
        "GET /v1/webhooks?follows=*",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {follower_relation(None)}, or rel = {follower_relation('{userId}')}; relShard = 0; then {_BOTH} of each, consistent",
        "2.5 RRU for one webhook; 2 more with each further one",
        reason="The index projects only ids, so each webhook and its checkpoint are read.",
    ),
    AccessPattern(
        "Read a webhook",
        "GET /v1/webhooks/{webhookId}",
        ("BatchGetItem",),
        None,
        f"{_BOTH}, consistent",
        "2 RRU",
        reason="The read is consistent, so that a client sees its own change. The response includes the checkpoint.",
    ),
    AccessPattern(
        "Change the description of a webhook",
        "PATCH /v1/webhooks/{webhookId} (description)",
        ("BatchGetItem", "UpdateItem"),
        None,
        f"{_BOTH}; then the first, if its version is unchanged",
        "2 RRU, 1 WRU",
        reason=READ_FIRST,
    ),
    AccessPattern(
        "Pause a webhook, or change its URL or subscription",
        "PATCH /v1/webhooks/{webhookId}",
        ("BatchGetItem", "TransactWriteItems"),
        None,
        f"{_BOTH}; then both, if its version is unchanged",
        "2 RRU, 4 WRU, and the index",
        reason=_FENCE_WORKER,
    ),
    AccessPattern(
        "Delete a webhook",
        "DELETE /v1/webhooks/{webhookId}",
        ("BatchGetItem", "TransactWriteItems"),
        None,
        f"{_BOTH}; then both, if its version is unchanged, and DELETE on {_LISTED}",
        "2 RRU, 6 WRU, and the index",
        reason="The read checks the owner. The transaction keeps the number of a user's webhooks exact.",
    ),
    AccessPattern(
        "Rotate the secret of a webhook",
        "POST /v1/webhooks/{webhookId}/rotate",
        ("BatchGetItem", "UpdateItem"),
        None,
        f"{_BOTH}; then the first, if its version is unchanged",
        "2 RRU, 1 WRU",
        reason=READ_FIRST,
    ),
    AccessPattern(
        "Replay changes",
        "POST /v1/webhooks/{webhookId}/replay",
        ("BatchGetItem", "Query", "GetItem", "BatchGetItem", "TransactWriteItems"),
        None,
        f"{_BOTH}; pk = {OWNER_CHANGES.pk} in VideoAudit, its first block and its tail, and one block for each time that the log has "
        "doubled, or the same of four logs; then both, if its version is unchanged",
        "6 RRU, 4 WRU, and the index",
        reason="A binary search in the log finds the position of the time.",
    ),
    AccessPattern(
        "Send a test event",
        "POST /v1/webhooks/{webhookId}/test",
        ("BatchGetItem", "UpdateItem"),
        None,
        f"{_BOTH}, consistent; then the second, if its last test is at least 10 seconds old",
        "2 RRU, 1 WRU",
        reason="The read is consistent, so that the event is sent to the current URL. The write limits the rate of tests.",
    ),
    AccessPattern(
        "List the deliveries of a webhook",
        "GET /v1/webhooks/{webhookId}/deliveries",
        ("BatchGetItem", "Query"),
        None,
        f"{_BOTH}, to check the owner; pk = {WEBHOOK_ATTEMPTS.pk}, sk begins with ATTEMPTS#, newest first",
        "2 RRU, 0.5 per 4 KB of attempts",
        reason="The first read checks whether the caller may see the result.",
    ),
    AccessPattern(
        "Find the subscriptions to a batch of changes",
        "the queue: deliveries (changes)",
        ("Query", "Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {follower_relation(None)}, and for each owner rel = {follower_relation('{userId}')}; relShard = 0, all of them; "
        "then their checkpoints",
        "2 RRU: 0.5 for the webhooks of all changes, 0.5 for the webhooks of each owner, and 1 for each checkpoint",
        reason="These requests are sent once for each batch of the stream, regardless of its size. While the queue is behind, each message to a webhook costs 1 WRU, because "
        "the webhook's checkpoint is written.",
    ),
    AccessPattern(
        "Deliver changes to a webhook",
        "the queue: deliveries",
        (
            *("GetItem", "GetItem", "Query", "UpdateItem", "UpdateItem"),
            *("PutItem", "UpdateItem", "Query", "UpdateItem", "Query"),
        ),
        None,
        f"pk = {WEBHOOK_STATE.pk}, sk = {WEBHOOK_STATE.sk}, then sk = {WEBHOOK.sk}; pk = {OWNER_CHANGES.pk} in VideoAudit from the checkpoint on, or "
        f"the four logs of all changes; ADD on pk = {SHARE.pk}, sk = {SHARE.sk} below the quota; the checkpoint with a lease, if its turn is unchanged; sk = {WEBHOOK_ATTEMPTS.sk}, if absent; the checkpoint "
        "behind the delivered changes, if its turn is unchanged; then the logs again; DELETE on the quota, and the first of "
        f"sk = {WAITING.sk}",
        "5 RRU, 11 if it subscribes to all changes; 5 WRU for 8 changes, 8 for a page of 64. 1 WRU if all changes have other types; none without new changes",
        reason="The lease excludes concurrent deliveries to a receiver. The last write commits the page. The last read finds changes whose message "
        "arrived during the lease. The quota prevents one owner from occupying all workers. Reads are consistent, because no later "
        "message would repeat a change that they miss.",
    ),
)
