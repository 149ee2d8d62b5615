"""Access patterns of credits, releases, ratings and playlists."""

from local.access_patterns.pattern import READ_FIRST, WHO_ASKS, AccessPattern
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
    "The first read says who may write it, and what is there; the last, whether the video has moved meanwhile, which as a check in a "
    "transaction would take three write units more."
)
_SIGNED_FIRST = "The read says who may change it, and what it is changed from; the first write says who removes it, because a removal in the stream does not."
_LISTED = (
    "The reads say who may change the list, and what it has or may have; its version, the entry and the membership change together, so that no "
    "video is in a list twice and no place is taken twice."
)

RELATIONS = (
    AccessPattern(
        "Credit a person",
        "PUT /v1/videos/{videoId}/credits/{personId}",
        ("BatchGetItem", "PutItem", "GetItem"),
        None,
        f"the video and pk = {CREDIT.pk}, sk = {CREDIT.sk}; that, if nobody wrote it meanwhile; the video's place again",
        "3 RRU, 2 WRU with the index; 1 while the video is not listed",
        beyond=_CHECKED,
    ),
    AccessPattern(
        "Remove a credit",
        "DELETE /v1/videos/{videoId}/credits/{personId}",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and pk = {CREDIT.pk}, sk = {CREDIT.sk}; that twice, if nobody wrote it meanwhile: signed, and removed",
        "2 RRU, 3 WRU with the index",
        beyond=_SIGNED_FIRST,
    ),
    AccessPattern(
        "Who was in it?",
        "GET /v1/videos/{videoId}/credits",
        ("GetItem", "Query"),
        None,
        f"the video, to know who asks; pk = {CREDIT.pk}, sk begins with CREDIT#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "What did they do in it?",
        "GET /v1/videos/{videoId}/credits/{personId}",
        ("BatchGetItem",),
        None,
        f"the video, to know who asks, and pk = {CREDIT.pk}, sk = {CREDIT.sk}",
        "1 RRU",
    ),
    AccessPattern(
        "What else did they do in those years?",
        "GET /v1/people/{personId}/videos?fromYear=1990&toYear=1999",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {person_relation('{personId}')}, relShard = 0, relSort between the years; then the videos",
        "0.5 RRU per 4 KB of credits, 0.5 RRU for each video",
    ),
    AccessPattern(
        "Name a video in a region and language",
        "PUT /v1/videos/{videoId}/releases/{region}/{language}",
        ("BatchGetItem", "PutItem", "GetItem"),
        None,
        f"the video and pk = {RELEASE.pk}, sk = {RELEASE.sk}; that, if nobody wrote it meanwhile; the video's place again",
        "3 RRU, 2 WRU with the index; 1 while the video is not listed",
        beyond=_CHECKED,
    ),
    AccessPattern(
        "Remove a release",
        "DELETE /v1/videos/{videoId}/releases/{region}/{language}",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and pk = {RELEASE.pk}, sk = {RELEASE.sk}; that twice, if nobody wrote it meanwhile: signed, and removed",
        "2 RRU, 3 WRU with the index",
        beyond=_SIGNED_FIRST,
    ),
    AccessPattern(
        "What is it called in New Zealand?",
        "GET /v1/videos/{videoId}/releases/{region}",
        ("GetItem", "Query"),
        None,
        f"the video, to know who asks; pk = {RELEASE.pk}, sk begins with RELEASE#{{region}}#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "Rate a video",
        "PUT /v1/videos/{videoId}/rating",
        ("BatchGetItem", "PutItem"),
        None,
        f"the video; pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}; pk = {RATING.pk}, sk = {RATING.sk}; then that, if nobody wrote "
        "it meanwhile; the stream adds it to the totals",
        "3 RRU, 1 WRU; 1 more for the first time's place in the index",
        beyond="The read says who may rate, what the rating takes the place of, and what the answer adds it to.",
    ),
    AccessPattern(
        "Take a rating back",
        "DELETE /v1/videos/{videoId}/rating",
        ("BatchGetItem", "PutItem"),
        None,
        f"as above; pk = {RATING.pk}, sk = {RATING.sk} has no value then",
        "3 RRU, 2 WRU with the index",
        beyond="The read says whether there is one, and who asks.",
    ),
    AccessPattern(
        "How is it rated, and how by me?",
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
        beyond="One transaction, so that the number of a user's playlists is exact and has a limit.",
    ),
    AccessPattern(
        "One owner's playlists",
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
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if the version is the one read",
        "1 RRU, 1 WRU, and the index when title or visibility change",
        beyond=READ_FIRST,
    ),
    AccessPattern(
        "Delete a playlist",
        "DELETE /v1/playlists/{playlistId}",
        ("GetItem", "TransactWriteItems"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if the version is the one read; ADD on pk = {PROFILE.pk}, "
        f"sk = {PROFILE.sk}; after 30 days a queue removes the entries",
        "1 RRU, 5 WRU with the index; 3 for each entry, 30 days later",
        beyond="The read says whose it is; the transaction keeps the number of a user's playlists exact.",
    ),
    AccessPattern(
        "What is in a playlist, in order?",
        "GET /v1/playlists/{playlistId}/entries",
        ("GetItem", "Query", "BatchGetItem"),
        None,
        f"the playlist; pk = {ENTRY.pk}, sk begins with ENTRY#; then the videos",
        "0.5 RRU, 0.5 per 4 KB, 0.5 for each video",
        beyond=WHO_ASKS,
    ),
    AccessPattern(
        "Append to a playlist",
        "POST /v1/playlists/{playlistId}/entries",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the playlist and the video; then the playlist if its version is the one read, pk = {ENTRY.pk}, sk = {ENTRY.sk}, and "
        f"pk = {MEMBERSHIP.pk}, sk = {MEMBERSHIP.sk} if absent",
        "2 RRU, 7 WRU with the index",
        beyond=_LISTED,
    ),
    AccessPattern(
        "Move an entry between two others",
        "PATCH /v1/playlists/{playlistId}/entries/{videoId}",
        ("GetItem", "BatchGetItem", "Query", "TransactWriteItems"),
        None,
        f"the playlist; the entry's membership and its new neighbour's; the entries next to that; then the playlist if its "
        f"version is the one read, pk = {ENTRY.pk}, sk = {ENTRY.sk} old and new, and the membership",
        "4 RRU, 8 WRU, however long the list; 6 more for each of up to 20 neighbours when thousands were moved there",
        beyond="The reads find who may change the list and the place between two neighbours; the transaction keeps every entry in one place.",
    ),
    AccessPattern(
        "Remove an entry",
        "DELETE /v1/playlists/{playlistId}/entries/{videoId}",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the playlist and pk = {MEMBERSHIP.pk}, sk = {MEMBERSHIP.sk}; then both and the entry, if the playlist's version is "
        "the one read",
        "2 RRU, 7 WRU with the index",
        beyond=_LISTED,
    ),
    AccessPattern(
        "Which playlists hold a video?",
        "GET /v1/videos/{videoId}/playlists",
        ("GetItem", "Query", "BatchGetItem"),
        RELATION_INDEX,
        f"the video; rel = {in_playlist_relation('{videoId}')}, relShard = 0, newest first; then the playlists",
        "0.5 RRU, 0.5 per 4 KB, 0.5 for each playlist",
        beyond=WHO_ASKS,
    ),
)
