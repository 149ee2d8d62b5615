"""The operations of the function `playlists`."""

from shared.aws.pages import EXAMINED_BUDGET
from shared.core import errors
from shared.openapi.spec import (
    BODY_ERRORS,
    CHANGE_ERRORS,
    ETAG,
    EXAMPLE_ID,
    IF_MATCH,
    IF_NONE_MATCH,
    KEY,
    LINK,
    SECONDS,
    Operation,
    json_content,
    model_schemas,
    object_of,
    page_of,
    ref,
    shown_schemas,
)
from shared.openapi.videos import VIDEO
from shared.relations.models import (
    EntryMove,
    NewEntry,
    NewPlaylist,
    PlaylistPatch,
)
from shared.relations.playlist_entries import MOST_ENTRIES
from shared.relations.playlists import MOST_PLAYLISTS
from shared.videos.documents import SUMMARY_FIELDS
from shared.web.parameters import Schema
from shared.web.requests import JSON, MERGE_PATCH

_ID = "6fa459ea-ee8a-4ca4-894e-db77e160355e"
_OTHER_VIDEO = "a3bb189e-8bf9-4888-9912-ace4e6543002"
NEW_PLAYLIST: Schema = {"title": "Launches", "description": "In the order of the launches.", "visibility": "public"}
PLAYLIST: Schema = {
    "playlistId": _ID,
    "userId": "user_789",
    **NEW_PLAYLIST,
    "createdAt": 1717645200,
    "updatedAt": 1717645260,
    "entryCount": 1,
    "version": 2,
}
_ENTRY: Schema = {"videoId": EXAMPLE_ID, "addedAt": 1717645260}
_SHOWN_ENTRY: Schema = _ENTRY | {"video": {name: VIDEO[name] for name in SUMMARY_FIELDS if name in VIDEO}}
PATH_PARAMETERS: dict[str, Schema] = {
    "playlistId": {
        "schema": {"type": "string", "format": "uuid"},
        "example": _ID,
    }
}
_IF_MATCH = IF_MATCH | {
    "description": 'An ETag of the playlist, or its version alone such as `"3"`: only if it still has that version. '
    "Every change of its entries makes another version. Without it, the last change wins."
}
_FULL_PAGES = (
    f"A page is full unless {EXAMINED_BUDGET} entries were examined for it; then it is short, and `nextCursor` still "
    "leads on."
)
_LIST_ERRORS = (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden)
_ONCE_ERRORS = (errors.RequestInFlight, errors.KeyReused)


def _page(name: str, example: Schema) -> dict[int, Schema]:
    return {
        200: {
            "description": "A page",
            "headers": LINK,
            **json_content(ref(name), {"items": [example], "nextCursor": None}),
        }
    }


OPERATIONS: dict[str, Operation] = {
    "createPlaylist": Operation(
        "Create a playlist",
        "It belongs to the caller, and is private unless `visibility` says otherwise. An owner may have at most "
        f"{MOST_PLAYLISTS:,} playlists; one more is refused with 409.",
        {
            201: {
                "description": "Created",
                "headers": {
                    "ETag": ETAG,
                    "Location": {
                        "description": "The playlist, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    },
                },
                **json_content(
                    ref("Playlist"), PLAYLIST | {"updatedAt": PLAYLIST["createdAt"], "entryCount": 0, "version": 1}
                ),
            }
        },
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.LimitReached,
            errors.WriteContention,
            *_ONCE_ERRORS,
        ),
        (KEY,),
        {"required": True, "content": {JSON: {"schema": ref("NewPlaylist"), "example": NEW_PLAYLIST}}},
    ),
    "listPlaylists": Operation(
        "List an owner's playlists, newest first",
        f"All of the caller's own; of another owner, the public ones. {_FULL_PAGES}",
        _page("PlaylistPage", PLAYLIST),
        _LIST_ERRORS,
    ),
    "getPlaylist": Operation(
        "Read a playlist",
        "Everybody can read public playlists; private ones, their owner and admins. Only these see `entryCount`.",
        {
            200: {"description": "The playlist", "headers": {"ETag": ETAG}, **json_content(ref("Playlist"), PLAYLIST)},
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (IF_NONE_MATCH,),
    ),
    "patchPlaylist": Operation(
        "Change a playlist",
        "A JSON Merge Patch (RFC 7396): members replace, null removes.",
        {
            200: {
                "description": "The changed playlist",
                "headers": {"ETag": ETAG},
                **json_content(ref("Playlist"), PLAYLIST | {"title": "All launches", "version": 3}),
            }
        },
        (*BODY_ERRORS, *CHANGE_ERRORS),
        (_IF_MATCH,),
        {
            "required": True,
            "content": {
                kind: {"schema": ref("PlaylistPatch"), "example": {"title": "All launches"}}
                for kind in (MERGE_PATCH, JSON)
            },
        },
    ),
    "deletePlaylist": Operation(
        "Delete a playlist",
        "Nobody sees it from then on; after 30 days it is removed with its entries. The videos stay as they are.",
        {204: {"description": "Deleted"}},
        CHANGE_ERRORS,
        (_IF_MATCH,),
    ),
    "listEntries": Operation(
        "List the entries of a playlist, in order",
        "Each with a summary of its video. Entries whose videos are deleted, or hidden from the caller, are left out. "
        f"{_FULL_PAGES} An entry that is moved between two pages may be on both, or on neither.",
        _page("EntryPage", _SHOWN_ENTRY),
        (*_LIST_ERRORS, errors.NotFound),
    ),
    "appendEntry": Operation(
        "Append a video to a playlist",
        "The caller must be able to see the video, and it must not be in the list yet. A playlist may have at most "
        f"{MOST_ENTRIES:,} entries; one more is refused with 409.",
        {201: {"description": "Appended", **json_content(ref("Entry"), _ENTRY)}},
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.NotFound,
            errors.AlreadyExists,
            errors.LimitReached,
            errors.WriteContention,
            errors.VersionMismatch,
            *_ONCE_ERRORS,
        ),
        (_IF_MATCH, KEY),
        {"required": True, "content": {JSON: {"schema": ref("NewEntry"), "example": {"videoId": EXAMPLE_ID}}}},
    ),
    "moveEntry": Operation(
        "Move an entry between two others",
        "The body names the entry that it is to follow, or the one that it is to precede. The rest of the list is not "
        "rewritten, however long it is. An entry that is in its place already is left there.",
        {200: {"description": "Moved", **json_content(ref("Entry"), _ENTRY)}},
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.NotFound,
            errors.LimitReached,
            errors.WriteContention,
            errors.VersionMismatch,
        ),
        (_IF_MATCH,),
        {
            "required": True,
            "content": {
                JSON: {
                    "schema": ref("EntryMove"),
                    "examples": {
                        "after another": {"value": {"after": _OTHER_VIDEO}},
                        "before another": {"value": {"before": _OTHER_VIDEO}},
                        "to the beginning": {"value": {"after": None}},
                        "to the end": {"value": {"before": None}},
                    },
                }
            },
        },
    ),
    "removeEntry": Operation(
        "Remove an entry from a playlist",
        "The video itself stays as it is.",
        {204: {"description": "Removed"}},
        (
            errors.InvalidParameter,
            errors.Forbidden,
            errors.NotFound,
            errors.WriteContention,
            errors.VersionMismatch,
        ),
        (_IF_MATCH,),
    ),
    "listVideoPlaylists": Operation(
        "List the playlists that hold a video",
        f"Public ones and the caller's own, by the time at which the video was added, the latest first. {_FULL_PAGES}",
        _page("PlaylistPage", PLAYLIST),
        (*_LIST_ERRORS, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    schemas = model_schemas(NewPlaylist, PlaylistPatch, NewEntry, EntryMove)
    content: Schema = shown_schemas(NewPlaylist)["ShownNewPlaylist"]["properties"]
    video_id: Schema = {"type": "string", "format": "uuid"}
    playlist: Schema = {
        "playlistId": {"type": "string", "format": "uuid"},
        "userId": {"type": "string", "description": "The owner"},
        **content,
        "createdAt": SECONDS,
        "updatedAt": SECONDS,
        "entryCount": {
            "type": "integer",
            "minimum": 0,
            "description": "All entries, including those whose videos have been hidden or deleted; shown to the owner and admins",
        },
        "version": {"type": "integer", "minimum": 1},
    }
    entry: Schema = {"videoId": video_id, "addedAt": SECONDS}
    return schemas | {
        "Playlist": object_of(playlist, optional=("description", "entryCount")),
        "PlaylistPage": page_of("Playlist"),
        "Entry": object_of(entry),
        "ListedEntry": object_of({**entry, "video": ref("VideoSummary")}),
        "EntryPage": page_of("ListedEntry"),
    }
