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
_TAKES_THE_TURN = (
    "The read says whose it is, and what it is changed from. The place changes with the webhook, so that a worker that is delivering "
    "writes nothing more about it as it was."
)

WEBHOOKS_PATTERNS = (
    AccessPattern(
        "Create a webhook",
        "POST /v1/webhooks",
        ("GetItem", "TransactWriteItems"),
        None,
        f"pk = {OWNER_CHANGES.pk}, sk = TAIL in VideoAudit, or those of the four logs of all; {_BOTH}, if absent; ADD on {_LISTED} if that "
        "has fewer than 20",
        "1 RRU, 8 WRU with the index; 4 RRU when it follows everybody",
        beyond="It begins where the log ends, so that it misses nothing from then on; one transaction, so that the number of a user's "
        "webhooks has a limit.",
    ),
    AccessPattern(
        "A user's webhooks",
        "GET /v1/webhooks",
        ("GetItem", "BatchGetItem"),
        None,
        f"{_LISTED}; then {_BOTH} of each, consistent",
        "3 RRU for one webhook; 2 more with each further one",
        beyond="Consistent, so that who creates one sees it; beside each is how far it is.",
    ),
    AccessPattern(
        "Webhooks that follow everybody's changes, or a user's",
        "GET /v1/webhooks?follows=*",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {follower_relation(None)}, or rel = {follower_relation('{userId}')}; relShard = 0; then {_BOTH} of each, consistent",
        "2.5 RRU for one webhook; 2 more with each further one",
        beyond="The index has their ids alone; beside each is how far it is.",
    ),
    AccessPattern(
        "Read a webhook",
        "GET /v1/webhooks/{webhookId}",
        ("BatchGetItem",),
        None,
        f"{_BOTH}, consistent",
        "2 RRU",
        beyond="Consistent, so that who changes one sees it; beside it is how far it is.",
    ),
    AccessPattern(
        "Describe a webhook",
        "PATCH /v1/webhooks/{webhookId} (description)",
        ("BatchGetItem", "UpdateItem"),
        None,
        f"{_BOTH}; then the first, if its version is the one read",
        "2 RRU, 1 WRU",
        beyond=READ_FIRST,
    ),
    AccessPattern(
        "Pause a webhook, or change what it delivers, or where",
        "PATCH /v1/webhooks/{webhookId}",
        ("BatchGetItem", "TransactWriteItems"),
        None,
        f"{_BOTH}; then both, if the version is the one read",
        "2 RRU, 4 WRU, and the index",
        beyond=_TAKES_THE_TURN,
    ),
    AccessPattern(
        "Delete a webhook",
        "DELETE /v1/webhooks/{webhookId}",
        ("BatchGetItem", "TransactWriteItems"),
        None,
        f"{_BOTH}; then both, if the version is the one read, and DELETE on {_LISTED}",
        "2 RRU, 6 WRU, and the index",
        beyond="The read says whose it is; one transaction, so that the number of a user's webhooks has a limit.",
    ),
    AccessPattern(
        "Replace the secret of a webhook",
        "POST /v1/webhooks/{webhookId}/rotate",
        ("BatchGetItem", "UpdateItem"),
        None,
        f"{_BOTH}; then the first, if its version is the one read",
        "2 RRU, 1 WRU",
        beyond=READ_FIRST,
    ),
    AccessPattern(
        "Send changes again",
        "POST /v1/webhooks/{webhookId}/replay",
        ("BatchGetItem", "Query", "GetItem", "BatchGetItem", "TransactWriteItems"),
        None,
        f"{_BOTH}; pk = {OWNER_CHANGES.pk} in VideoAudit, its first block and its tail, and one block for each time that the log has "
        "doubled, or the same of four logs; then both, if the version is the one read",
        "6 RRU, 4 WRU, and the index",
        beyond="A log is searched by halves for the time; the rest is as for other changes.",
    ),
    AccessPattern(
        "Send a test event",
        "POST /v1/webhooks/{webhookId}/test",
        ("BatchGetItem", "UpdateItem"),
        None,
        f"{_BOTH}, consistent; then the second, if it was not tested within 10 seconds",
        "2 RRU, 1 WRU",
        beyond="Consistent, so that it goes where the webhook leads now; the write keeps tests apart.",
    ),
    AccessPattern(
        "What a webhook has sent, and what its receiver answered",
        "GET /v1/webhooks/{webhookId}/deliveries",
        ("BatchGetItem", "Query"),
        None,
        f"{_BOTH}, to know whose it is; pk = {WEBHOOK_ATTEMPTS.pk}, sk begins with ATTEMPTS#, the latest first",
        "2 RRU, 0.5 per 4 KB of attempts",
        beyond="It is read first: it says who may see the answer.",
    ),
    AccessPattern(
        "Who follows these changes?",
        "the queue: deliveries (changes)",
        ("Query", "Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {follower_relation(None)}, and of each owner rel = {follower_relation('{userId}')}; relShard = 0, all of them; "
        "then their places",
        "2 RRU: 0.5 for the webhooks of everybody's changes, 0.5 for those of each owner, and 1 for each place",
        beyond="Once for each batch of the stream, however many changes are in it. While the queue is behind, the place of each webhook that is sent a message is "
        "written: 1 WRU.",
    ),
    AccessPattern(
        "Deliver changes to a webhook",
        "the queue: deliveries",
        (
            *("GetItem", "GetItem", "Query", "UpdateItem", "UpdateItem"),
            *("PutItem", "UpdateItem", "Query", "UpdateItem", "Query"),
        ),
        None,
        f"pk = {WEBHOOK_STATE.pk}, sk = {WEBHOOK_STATE.sk}, then sk = {WEBHOOK.sk}; pk = {OWNER_CHANGES.pk} in VideoAudit from the place on, or "
        f"those of the four logs of all; ADD on pk = {SHARE.pk}, sk = {SHARE.sk} below the quota; the place with a lease, if its turn is the one read; sk = {WEBHOOK_ATTEMPTS.sk}, if absent; the place "
        "behind what was taken, if its turn is; then the logs again; DELETE on the quota, and the first of "
        f"sk = {WAITING.sk}",
        "5 RRU, 11 when it follows everybody; 5 WRU for 8 changes, 8 for a page of 64. Changes of other types alone: 1 WRU; nothing new: none",
        beyond="The lease keeps two workers from calling a receiver at once. What is written last says that a page is done; the last look "
        "is for changes whose message found the lease. The quota keeps one owner from taking all workers. Reads are consistent, as no later message makes up for what they miss.",
    ),
)
