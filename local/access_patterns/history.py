"""Access patterns of the audit trail, in the table `VideoAudit`: lists of changes, past versions and reverts."""

from local.access_patterns.pattern import READ_FIRST, AccessPattern
from shared.schema import (
    AUDIT,
    CHANGESET,
    CHANGESET_INDEX,
    PLAYLIST,
    PLAYLIST_AUDIT,
    RELATION_INDEX,
    REVERT,
    REVERT_PART,
    VIDEO,
    folders_relation,
)

_BACK = f"pk = {VIDEO.pk}, sk = {VIDEO.sk}; in `VideoAudit` pk = {AUDIT.pk}, newest first, back to that version"
_PAST = "A past version is the current state, read consistently, without the later changes in the trail."

HISTORY = (
    AccessPattern(
        "List the changes of a video, with authors",
        "GET /v1/videos/{videoId}/audit",
        ("GetItem", "Query"),
        None,
        f"the video, to check the owner; in `VideoAudit` pk = {AUDIT.pk}, sk between two times",
        "0.5 RRU, and 0.5 RRU per 4 KB of entries",
    ),
    AccessPattern(
        "List the changes of a playlist, with authors",
        "GET /v1/playlists/{playlistId}/audit",
        ("GetItem", "Query"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, to check the owner; in `VideoAudit` pk = {PLAYLIST_AUDIT.pk}, sk between two times",
        "0.5 RRU, and 0.5 RRU per 4 KB of entries",
    ),
    AccessPattern(
        "Read a video as of a version or a time",
        "GET /v1/videos/{videoId}?version=1",
        ("GetItem", "Query"),
        None,
        _BACK,
        "1 RRU, and 1 RRU per 4 KB of entries",
        reason=_PAST,
    ),
    AccessPattern(
        "Compare two versions of a video",
        "GET /v1/videos/{videoId}/diff?from=1",
        ("GetItem", "Query"),
        None,
        _BACK,
        "1 RRU, and 1 RRU per 4 KB of entries",
        reason=_PAST,
    ),
    AccessPattern(
        "Revert a video to an earlier version",
        "POST /v1/videos/{videoId}/revert",
        ("GetItem", "Query", "UpdateItem"),
        None,
        f"{_BACK}; then the video if its version is unchanged",
        "1 RRU, and 1 RRU per 4 KB of entries; 1 WRU, and the indexes, as any change",
        reason=f"{READ_FIRST} The trail contains the earlier state, and the later changes with their authors.",
    ),
    AccessPattern(
        "List the changes of one request or import",
        "GET /v1/changesets/{changesetId}",
        ("Query", "BatchGetItem"),
        CHANGESET_INDEX,
        f"{CHANGESET} = {{changesetId}}, by video or playlist; then the entries",
        "0.5 RRU per 4 KB of the index, 1 RRU for each entry of up to 4 KB",
        reason="The index projects only keys, because it is written with every change. The entries are read consistently.",
    ),
    AccessPattern(
        "Revert the changes of one request",
        "POST /v1/changesets/{changesetId}/revert",
        ("Query", "BatchGetItem", "GetItem", "Query", "GetItem", "Query", "UpdateItem"),
        CHANGESET_INDEX,
        f"{CHANGESET} = {{changesetId}}; its entries; then for each video pk = {VIDEO.pk}, sk = {VIDEO.sk}, and its later entries: once to "
        "plan, and again to write it if its version is unchanged",
        "0.5 RRU per 4 KB of the index, 1 RRU for each entry, 4 RRU for each video; 1 WRU for each video, and the indexes, as any change",
        reason="The whole revert is planned before the first write, so that it fails without partial changes if the trail is behind. "
        "Later entries contain later changes and their authors.",
    ),
    AccessPattern(
        "Request the revert of a large change set",
        "POST /v1/changesets/{changesetId}/revert (large)",
        ("Query", "PutItem"),
        CHANGESET_INDEX,
        f"{CHANGESET} = {{changesetId}}, one entry more than a request reverts; then pk = {REVERT.pk}, sk = {REVERT.sk}, if absent",
        "0.5 RRU per 4 KB of the index; 1 WRU",
        reason="The read determines whether the change set is large.",
    ),
    AccessPattern(
        "Revert a page of a large change set",
        "the queue: reverts",
        ("GetItem", "Query", "BatchGetItem", "GetItem", "Query", "UpdateItem", "UpdateItem", "GetItem"),
        CHANGESET_INDEX,
        f"pk = {REVERT.pk}, sk = {REVERT.sk}; {CHANGESET} = {{changesetId}} from the checkpoint; the entries; each video and its later entries; "
        f"the video if its version is unchanged; then the run if its turn is unchanged, in a transaction with pk = {REVERT_PART.pk}, sk = {REVERT_PART.sk} "
        "for each skipped part",
        "2 RRU, and for each page 0.5 RRU per 4 KB of the index, 1 RRU for each entry, 2 RRU for each video; 2 WRU for the video and the run, "
        "and the indexes",
        reason="The result of each page is one write, conditional on the number of processed pages. A page therefore counts once, even if a worker dies.",
    ),
    AccessPattern(
        "Read the progress of a large revert",
        "GET /v1/changesets/{changesetId}/reverts/{revertId}",
        ("GetItem", "Query"),
        None,
        f"pk = {REVERT.pk}, sk = {REVERT.sk}; then the skipped parts, sk from part-",
        "1 RRU, and 0.5 RRU per 4 KB of skipped parts",
        reason="The read is consistent, because the worker updates the run concurrently.",
    ),
    AccessPattern(
        "Request the move of a folder",
        "POST /v1/folder-moves",
        ("Query", "PutItem"),
        RELATION_INDEX,
        f"rel = {folders_relation('{userId}')}, relId begins with a/b/, one entry; then pk = {REVERT.pk}, sk = {REVERT.sk}, if absent",
        "0.5 RRU; 1 WRU",
        reason="The read determines whether the folder has videos.",
    ),
    AccessPattern(
        "Move a page of a folder's videos",
        "the queue: reverts (a folder)",
        ("GetItem", "Query", "BatchGetItem", "UpdateItem", "GetItem", "GetItem", "TransactWriteItems", "UpdateItem"),
        RELATION_INDEX,
        f"pk = {REVERT.pk}, sk = {REVERT.sk}; rel = {folders_relation('{userId}')}, relId begins with a/b/, from the checkpoint; the "
        "videos; the run with their ids, if its turn is unchanged; each video and its folder entry, if its version is unchanged; then "
        "the run if its turn is unchanged",
        "2 RRU, and for each page 0.5 RRU per 4 KB of the index, 2 RRU for each video; 6 WRU for each video, 2 for the run, and the indexes",
        reason="The run stores the ids of a page before the first of its videos moves, so that a video counts once, even if a worker dies.",
    ),
    AccessPattern(
        "Read the progress of a move",
        "GET /v1/folder-moves/{moveId}",
        ("GetItem", "Query"),
        None,
        f"pk = {REVERT.pk}, sk = {REVERT.sk}; then the failed videos, sk from part-",
        "1 RRU, and 0.5 RRU per 4 KB of failed videos",
        reason="The read is consistent, because the worker updates the run concurrently.",
    ),
)
