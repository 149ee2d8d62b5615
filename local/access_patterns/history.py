"""Access patterns of the audit trail, in the table `VideoAudit`: change lists, past versions and reverts."""

from local.access_patterns.pattern import READ_FIRST, AccessPattern
from shared.schema import AUDIT, CHANGESET, CHANGESET_INDEX, PLAYLIST, PLAYLIST_AUDIT, REVERT, REVERT_PART, VIDEO

_BACK = f"pk = {VIDEO.pk}, sk = {VIDEO.sk}; in `VideoAudit` pk = {AUDIT.pk}, newest first, as far back as that version"
_PAST = "What a video was is what it is, read consistently, without what the trail has of it since."

HISTORY = (
    AccessPattern(
        "What happened to a video, and who did it?",
        "GET /v1/videos/{videoId}/audit",
        ("GetItem", "Query"),
        None,
        f"the video, to know whose it is; in `VideoAudit` pk = {AUDIT.pk}, sk between two times",
        "0.5 RRU, and 0.5 RRU per 4 KB of entries",
    ),
    AccessPattern(
        "What happened to a playlist, and who did it?",
        "GET /v1/playlists/{playlistId}/audit",
        ("GetItem", "Query"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, to know whose it is; in `VideoAudit` pk = {PLAYLIST_AUDIT.pk}, sk between two times",
        "0.5 RRU, and 0.5 RRU per 4 KB of entries",
    ),
    AccessPattern(
        "What was a video, in a version or at a time?",
        "GET /v1/videos/{videoId}?version=1",
        ("GetItem", "Query"),
        None,
        _BACK,
        "1 RRU, and 1 RRU per 4 KB of entries",
        beyond=_PAST,
    ),
    AccessPattern(
        "What changed between two versions of a video?",
        "GET /v1/videos/{videoId}/diff?from=1",
        ("GetItem", "Query"),
        None,
        _BACK,
        "1 RRU, and 1 RRU per 4 KB of entries",
        beyond=_PAST,
    ),
    AccessPattern(
        "Set a video back to an earlier version",
        "POST /v1/videos/{videoId}/revert",
        ("GetItem", "Query", "UpdateItem"),
        None,
        f"{_BACK}; then the video if its version is the one read",
        "1 RRU, and 1 RRU per 4 KB of entries; 1 WRU, and the indexes, as any change",
        beyond=f"{READ_FIRST} The trail says what it was, and who changed what since.",
    ),
    AccessPattern(
        "What did one request, or one import, write?",
        "GET /v1/changesets/{changesetId}",
        ("Query", "BatchGetItem"),
        CHANGESET_INDEX,
        f"{CHANGESET} = {{changesetId}}, by video or playlist; then the entries",
        "0.5 RRU per 4 KB of the index, 1 RRU for each entry of up to 4 KB",
        beyond="The index is written with every change, so it has no more than the keys; the entries are read consistently.",
    ),
    AccessPattern(
        "Take back what one request wrote",
        "POST /v1/changesets/{changesetId}/revert",
        ("Query", "BatchGetItem", "GetItem", "Query", "GetItem", "Query", "UpdateItem"),
        CHANGESET_INDEX,
        f"{CHANGESET} = {{changesetId}}; its entries; then of each video pk = {VIDEO.pk}, sk = {VIDEO.sk}, and its later entries, first to "
        "plan, and again to write it if its version is the one read",
        "0.5 RRU per 4 KB of the index, 1 RRU for each entry, 4 RRU for each video; 1 WRU for each video, and the indexes, as any change",
        beyond="All of it is planned before any of it is written: so a trail that is behind refuses it, and leaves nothing half done. "
        "Later entries say who changed what since.",
    ),
    AccessPattern(
        "Ask for a large change set to be taken back",
        "POST /v1/changesets/{changesetId}/revert (large)",
        ("Query", "PutItem"),
        CHANGESET_INDEX,
        f"{CHANGESET} = {{changesetId}}, one more than are taken back at once; then pk = {REVERT.pk}, sk = {REVERT.sk}, if absent",
        "0.5 RRU per 4 KB of the index; 1 WRU",
        beyond="The read says whether it is a large one.",
    ),
    AccessPattern(
        "Take back a page of a large change set",
        "the queue: reverts",
        ("GetItem", "Query", "BatchGetItem", "GetItem", "Query", "UpdateItem", "UpdateItem", "GetItem"),
        CHANGESET_INDEX,
        f"pk = {REVERT.pk}, sk = {REVERT.sk}; {CHANGESET} = {{changesetId}} from where it is; the entries; each video and its later entries; "
        f"the video if its version is the one read; then the run if its turn is, in a transaction with pk = {REVERT_PART.pk}, sk = {REVERT_PART.sk} "
        "for each part that was left alone",
        "2 RRU, and of each page 0.5 RRU per 4 KB of the index, 1 RRU for each entry, 2 RRU for each video; 2 WRU for the video and the run, "
        "and the indexes",
        beyond="Each page is written down in one write on condition of the turn before it: so it counts once, however often a worker is broken off.",
    ),
    AccessPattern(
        "How far is a large change set taken back?",
        "GET /v1/changesets/{changesetId}/reverts/{revertId}",
        ("GetItem", "Query"),
        None,
        f"pk = {REVERT.pk}, sk = {REVERT.sk}; then what was left alone, sk from part-",
        "1 RRU, and 0.5 RRU per 4 KB of what was left alone",
        beyond="It is read consistently, as it is being written.",
    ),
)
