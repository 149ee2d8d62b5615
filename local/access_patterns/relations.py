"""Access patterns of credits, releases, ratings and playlists."""

from local.access_patterns.pattern import CHECK_ACCESS, READ_FIRST, AccessPattern
from shared.schema import (
    CREDIT,
    ENTRY,
    MEMBERSHIP,
    PLAYLIST,
    PROFILE,
    RATING,
    RATING_TOTALS,
    RELATION_INDEX,
    RELEASE,
    in_playlist_relation,
    person_relation,
    playlists_relation,
)

_CHECKED = (
    "The first read checks the caller's permission and returns the previous state. The last read detects a concurrent change of the "
    "video; a condition in a transaction would cost three more write units."
)
_AUTHOR_FIRST = "The read checks the caller's permission. The first write records the author, because the stream record of a delete has none."
_LISTED = (
    "The reads check the caller's permission and the video. Version, entry and membership change in one transaction, so that a playlist "
    "contains no video and no rank twice."
)

RELATIONS = (
    AccessPattern(
        "Set a credit",
        "PUT /v1/videos/{videoId}/credits/{personId}",
        ("BatchGetItem", "PutItem", "GetItem"),
        None,
        f"the video and pk = {CREDIT.pk}, sk = {CREDIT.sk}; the item if unchanged; the video's list attributes again",
        "3 RRU, 2 WRU with the index; 1 while the video is not listed",
        reason=_CHECKED,
    ),
    AccessPattern(
        "Delete a credit",
        "DELETE /v1/videos/{videoId}/credits/{personId}",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and pk = {CREDIT.pk}, sk = {CREDIT.sk}; the item twice if unchanged: an update that records the author, and the delete",
        "2 RRU, 3 WRU with the index",
        reason=_AUTHOR_FIRST,
    ),
    AccessPattern(
        "List the credits of a video",
        "GET /v1/videos/{videoId}/credits",
        ("GetItem", "Query"),
        None,
        f"the video, to check access; pk = {CREDIT.pk}, sk begins with CREDIT#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "Read a person's credit",
        "GET /v1/videos/{videoId}/credits/{personId}",
        ("BatchGetItem",),
        None,
        f"the video, to check access, and pk = {CREDIT.pk}, sk = {CREDIT.sk}",
        "1 RRU",
    ),
    AccessPattern(
        "List a person's videos in a range of years",
        "GET /v1/people/{personId}/videos?fromYear=1990&toYear=1999",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {person_relation('{personId}')}, relShard = 0, relSort between the years; then the videos",
        "0.5 RRU per 4 KB of credits, 0.5 RRU for each video",
    ),
    AccessPattern(
        "Set a release: the title in a region and language",
        "PUT /v1/videos/{videoId}/releases/{region}/{language}",
        ("BatchGetItem", "PutItem", "GetItem"),
        None,
        f"the video and pk = {RELEASE.pk}, sk = {RELEASE.sk}; the item if unchanged; the video's list attributes again",
        "3 RRU, 2 WRU with the index; 1 while the video is not listed",
        reason=_CHECKED,
    ),
    AccessPattern(
        "Delete a release",
        "DELETE /v1/videos/{videoId}/releases/{region}/{language}",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and pk = {RELEASE.pk}, sk = {RELEASE.sk}; the item twice if unchanged: an update that records the author, and the delete",
        "2 RRU, 3 WRU with the index",
        reason=_AUTHOR_FIRST,
    ),
    AccessPattern(
        "List the releases of a region",
        "GET /v1/videos/{videoId}/releases/{region}",
        ("GetItem", "Query"),
        None,
        f"the video, to check access; pk = {RELEASE.pk}, sk begins with RELEASE#{{region}}#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "Rate a video",
        "PUT /v1/videos/{videoId}/rating",
        ("BatchGetItem", "PutItem"),
        None,
        f"the video; pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}; pk = {RATING.pk}, sk = {RATING.sk}; then the item if "
        "unchanged; the stream adds it to the totals",
        "3 RRU, 1 WRU; 1 more for the index entry of a first rating",
        reason="The read checks access, and returns the previous rating and the totals for the response.",
    ),
    AccessPattern(
        "Delete a rating",
        "DELETE /v1/videos/{videoId}/rating",
        ("BatchGetItem", "PutItem"),
        None,
        f"as above; pk = {RATING.pk}, sk = {RATING.sk} loses its value",
        "3 RRU, 2 WRU with the index",
        reason="The read checks access, and that a rating exists.",
    ),
    AccessPattern(
        "Read the rating totals and the caller's rating",
        "GET /v1/videos/{videoId}/rating",
        ("BatchGetItem",),
        None,
        f"the video; pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}; pk = {RATING.pk}, sk = {RATING.sk}",
        "1.5 RRU",
    ),
)

PLAYLISTS = (
    AccessPattern(
        "Create a playlist",
        "POST /v1/playlists",
        ("TransactWriteItems",),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if absent; ADD on pk = {PROFILE.pk}, sk = {PROFILE.sk}",
        "5 WRU with the index; 1 more for a user's first",
        reason="The transaction keeps the limited number of a user's playlists exact.",
    ),
    AccessPattern(
        "List an owner's playlists",
        "GET /v1/playlists?userId=u",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {playlists_relation('u')}, relShard = 0, newest first; then the playlists",
        "0.5 RRU per 4 KB, 0.5 RRU for each playlist",
    ),
    AccessPattern(
        "Read a playlist",
        "GET /v1/playlists/{playlistId}",
        ("GetItem",),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}",
        "0.5 RRU",
    ),
    AccessPattern(
        "Change a playlist",
        "PATCH /v1/playlists/{playlistId}",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if its version is unchanged",
        "1 RRU, 1 WRU, and the index if title or visibility changes",
        reason=READ_FIRST,
    ),
    AccessPattern(
        "Delete a playlist",
        "DELETE /v1/playlists/{playlistId}",
        ("GetItem", "TransactWriteItems"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if its version is unchanged; ADD on pk = {PROFILE.pk}, "
        f"sk = {PROFILE.sk}; after 30 days a worker deletes the entries",
        "1 RRU, 5 WRU with the index; 3 for each entry, 30 days later",
        reason="The read checks the owner. The transaction keeps the number of a user's playlists exact.",
    ),
    AccessPattern(
        "List the entries of a playlist, in order",
        "GET /v1/playlists/{playlistId}/entries",
        ("GetItem", "Query", "BatchGetItem"),
        None,
        f"the playlist; pk = {ENTRY.pk}, sk begins with ENTRY#; then the videos",
        "0.5 RRU, 0.5 per 4 KB, 0.5 for each video",
        reason=CHECK_ACCESS,
    ),
    AccessPattern(
        "Append to a playlist",
        "POST /v1/playlists/{playlistId}/entries",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the playlist and the video; then the playlist if its version is unchanged, pk = {ENTRY.pk}, sk = {ENTRY.sk}, and "
        f"pk = {MEMBERSHIP.pk}, sk = {MEMBERSHIP.sk} if absent",
        "2 RRU, 7 WRU with the index",
        reason=_LISTED,
    ),
    AccessPattern(
        "Move an entry between two others",
        "PATCH /v1/playlists/{playlistId}/entries/{videoId}",
        ("GetItem", "BatchGetItem", "Query", "TransactWriteItems"),
        None,
        f"the playlist; the memberships of the entry and its new neighbour; the entries next to the neighbour; then the playlist if its "
        f"version is unchanged, pk = {ENTRY.pk}, sk = {ENTRY.sk} old and new, and the membership",
        "4 RRU, 8 WRU, for any length of the list; 6 more for each of up to 20 neighbours after thousands of moves to one position",
        reason="The reads check the caller's permission and find a rank between two neighbours. The transaction keeps each entry at one rank.",
    ),
    AccessPattern(
        "Remove an entry",
        "DELETE /v1/playlists/{playlistId}/entries/{videoId}",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the playlist and pk = {MEMBERSHIP.pk}, sk = {MEMBERSHIP.sk}; then both and the entry, if the playlist's version is "
        "unchanged",
        "2 RRU, 7 WRU with the index",
        reason=_LISTED,
    ),
    AccessPattern(
        "List the playlists that contain a video",
        "GET /v1/videos/{videoId}/playlists",
        ("GetItem", "Query", "BatchGetItem"),
        RELATION_INDEX,
        f"the video; rel = {in_playlist_relation('{videoId}')}, relShard = 0, newest first; then the playlists",
        "0.5 RRU, 0.5 per 4 KB, 0.5 for each playlist",
        reason=CHECK_ACCESS,
    ),
)
