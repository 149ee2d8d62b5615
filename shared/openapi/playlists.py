"""OpenAPI documentation of the operations of the function `playlists`."""

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
from shared.relations.playlist_entries import MAX_ENTRIES
from shared.relations.playlists import MAX_PLAYLISTS
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
    "description": 'The playlist\'s ETag, or only its version such as `"3"`, which changes of entries also increment; without '
    "it, the last write wins."
}
_FULL_PAGES = f"A page may be short after {EXAMINED_BUDGET} examined entries: follow `nextCursor` for more."
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


TAG_DESCRIPTIONS = {"playlists": "Ordered collections of videos"}
OPERATIONS: dict[str, Operation] = {
    "createPlaylist": Operation(
        "Create a playlist",
        "The caller owns the playlist, which is private unless `visibility` is sent. An owner may have "
        f"{MAX_PLAYLISTS:,} playlists; another one is rejected with 409.",
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
        f"Lists all of the caller's playlists, or the public playlists of another owner. {_FULL_PAGES}",
        _page("PlaylistPage", PLAYLIST),
        _LIST_ERRORS,
    ),
    "getPlaylist": Operation(
        "Get a playlist",
        "All users can read a public playlist. Only its owner and admins can read a private one, or see `entryCount`.",
        {
            200: {"description": "The playlist", "headers": {"ETag": ETAG}, **json_content(ref("Playlist"), PLAYLIST)},
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (IF_NONE_MATCH,),
    ),
    "patchPlaylist": Operation(
        "Update a playlist",
        "JSON Merge Patch (RFC 7396): members replace fields, and `null` removes them.",
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
        "Hides the playlist from all users, and removes it with its entries after 30 days. The videos are not changed.",
        {204: {"description": "Deleted"}},
        CHANGE_ERRORS,
        (_IF_MATCH,),
    ),
    "listEntries": Operation(
        "List the entries of a playlist, in order",
        f"Each entry has a summary of its video; entries of deleted or hidden videos are omitted. {_FULL_PAGES} An "
        "entry that is moved between two pages may appear twice or not at all.",
        _page("EntryPage", _SHOWN_ENTRY),
        (*_LIST_ERRORS, errors.NotFound),
    ),
    "appendEntry": Operation(
        "Append a video to a playlist",
        "The video must be visible to the caller and not yet in the playlist. A playlist may have "
        f"{MAX_ENTRIES:,} entries; another one is rejected with 409.",
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
        "Move an entry of a playlist",
        "The body names the entry that it must follow or precede. Other entries are not rewritten, so the cost "
        "does not depend on the length of the playlist. An entry that already has this position is not changed.",
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
        "The video is not changed.",
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
        "List the playlists that contain a video",
        "Lists public playlists and the caller's own, in descending order of the time at which the video was "
        f"added. {_FULL_PAGES}",
        _page("PlaylistPage", PLAYLIST),
        (*_LIST_ERRORS, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
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
            "description": "Number of all entries, including those of hidden or deleted videos; shown to the owner and admins",
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
