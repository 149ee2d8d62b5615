"""Lifecycle of a video from upload to purge, and the DynamoDB item of a video.

The functions are pure: they return changed copies of items, and the stores write the copies.
"""

import re
import uuid
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, cast

from shared.aws.records import with_version
from shared.core.attributes import Item, Value, without
from shared.core.caller import Caller
from shared.core.errors import IllegalTransition, invalid_field, invalid_fields
from shared.core.limits import LAST_SECOND
from shared.schema import (
    BY_TITLE,
    FEED,
    PARTITION_KEY,
    SCHEMA_VERSION,
    SORT_KEY,
    TTL_ATTRIBUTE,
    VIDEO,
    shard_of,
    status_relation,
)
from shared.video_fields import PROBED, SENT
from shared.videos.access import is_published
from shared.videos.documents import MAPS, job_output, to_json_value, with_job_output
from shared.videos.orders import title_value
from shared.videos.tags import normalise_tag

if TYPE_CHECKING:
    from shared.entities import AnyVideo, IndexAttributes, Video, VideoSource

GRACE_SECONDS = 90 * 24 * 3600
"""Seconds during which a deleted or expired video can be restored. After this time, DynamoDB may delete the video."""

TRANSITIONS: dict[str, frozenset[str]] = {
    "uploaded": frozenset({"processing", "failed"}),
    "processing": frozenset({"ready", "failed"}),
    "ready": frozenset({"processing"}),
    "failed": frozenset({"uploaded", "processing"}),
    "deleted": frozenset(),
}
"""Status transitions that PATCH allows.

DELETE sets `deleted` whatever the status is, and a restore sets the previous status again.
"""

STATUSES = tuple(TRANSITIONS)

_EXCLUDING = ("publishAt", "expiresAt", "seriesId")
"""Names of the fields with values that can conflict with other fields of the video."""

SERVER_FIELDS = tuple(field.name for field in SENT if field.create == "admin")
"""Names of the fields of a new video that only admins can set. For other callers, the server sets them."""

_WRITABLE = frozenset({*(field.name for field in SENT if field.patch), "posterTime"})
"""Names of the fields that users can change."""

_CONTENT = tuple(field.name for field in SENT if field.create == "client")
"""Names of the fields of the model `VideoContent`, which validates videos after an edit."""


def new_item(
    content: Mapping[str, Value],
    *,
    video_id: str,
    owner: str,
    created_at: int,
    status: str,
    origin: Literal["person", "import"] = "person",
) -> "Video":
    """Return the item of a new video without keys and audit fields. `stamp` adds the keys and audit fields.

    `origin` is recorded as the origin of the PROBED fields in `content`.
    """
    item = cast("Video", {name: {} for name in MAPS} | dict(content))
    item |= {"videoId": video_id, "userId": owner, "createdAt": created_at, "status": status}
    item["origins"] = dict.fromkeys((name for name in PROBED if name in item), origin)
    return _normalise(item)


def with_defaults(content: Mapping[str, Value], caller: Caller, now: int, at: str = "") -> "Video":
    """Return the item of a new video, with the fields that a client sent, and default values.

    Admins may supply the SERVER_FIELDS. Values from other callers are ignored. Raises InvalidContent for fields that
    contradict each other. `at` is the JSON Pointer of `content` in the request's body.
    """
    own = {name: content.get(name) if caller.is_admin else None for name in SERVER_FIELDS}
    item = new_item(
        {name: value for name, value in content.items() if name not in own},
        video_id=own["videoId"] or str(uuid.uuid4()),
        owner=own["userId"] or caller.subject,
        created_at=now if own["createdAt"] is None else own["createdAt"],
        status=own["status"] or "uploaded",
        origin="import" if any(value is not None for value in own.values()) else "person",
    )
    _require_possible({}, item, now, at)
    return item


def stamp(item: "Video", *, caller: Caller, now: int, version: int, write_id: str | None = None) -> "Video":
    """Return the item to write: with its keys, index attributes, version and audit fields.

    The schema version of an existing item stays unchanged, because `to_current_schema` sets it.
    """
    content = without(item, "categoryShard", "poster", TTL_ATTRIBUTE)
    key = VIDEO.key(videoId=item["videoId"])
    result: Video = {
        **with_version(content, caller, now, version=version, write_id=write_id),
        "schemaVersion": item.get("schemaVersion", SCHEMA_VERSION),
        "updatedAs": caller.kind,
        PARTITION_KEY: key[PARTITION_KEY],
        SORT_KEY: key[SORT_KEY],
        **listing(item, now),
        "orderBy": BY_TITLE,
        "orderValue": title_value(item["title"]),
    }
    if is_listed(result) and "category" in item:
        result["categoryShard"] = shard_of(item["videoId"])
    if (poster := with_job_output(item)["thumbnails"].get("poster", {}).get("url")) is not None:
        result["poster"] = poster
    if (purge_at := _purge_at(item, now)) is not None:
        result[TTL_ATTRIBUTE] = purge_at
    return result


def _one_spelling_of_each_tag(item: "Video") -> "Video":
    spellings = {normalise_tag(tag): tag for tag in sorted(item.get("tags", ()), reverse=True)}
    return _normalise(item | {"tags": set(spellings.values())})


UPGRADES: Mapping[int, Callable[["Video"], "Video"]] = {3: _one_spelling_of_each_tag}
"""Migration functions by target schema version. Each function converts an item from any earlier version to its target
version. If several functions apply, they run in ascending order of their versions."""


def to_current_schema(item: "Video") -> "Video":
    """Return the video in the current schema version. If it already has this version, returns the same object."""
    stored = item.get("schemaVersion", 1)
    for version, upgrade in UPGRADES.items():
        if stored < version:
            item = upgrade(item) | {"schemaVersion": version}
    return item


def normalised_tags(item: "AnyVideo") -> set[str]:
    """Return the video's tags in case-folded form. Keys contain tags in this form, and tags are compared in it."""
    return {normalise_tag(tag) for tag in item.get("tags", ())}


def is_listed(item: "AnyVideo") -> bool:
    """Return whether the public lists contain the video. They contain it if it was published at the time of its last
    write.

    After `publishAt` or `expiresAt` has passed, `VideoStore.settle` writes the video again.
    """
    return item.get("rel") == FEED


def listing(item: "AnyVideo", now: int) -> "IndexAttributes":
    """Return the RelationIndex attributes that the video must have at `now`."""
    video_id = item["videoId"]
    return {
        "rel": FEED if is_published(item, now) else status_relation(item["status"]),
        "relShard": shard_of(video_id),
        "relSort": item["createdAt"],
        "relId": video_id,
    }


def _purge_at(item: "AnyVideo", now: int) -> int | None:
    if item["status"] == "deleted":
        return int(item["deletedAt"]) + GRACE_SECONDS
    if "expiresAt" in item:
        # An import may create a video that expired long ago; its grace period starts now.
        return max(int(item["expiresAt"]), now) + GRACE_SECONDS
    return None


def apply_patch(item: "Video", patch: Mapping[str, Value], now: int) -> "Video":
    """Return the item after a JSON Merge Patch; raise IllegalTransition or InvalidContent."""
    if item["status"] == "deleted":
        raise IllegalTransition.deleted()
    _require_step(item["status"], patch.get("status", item["status"]))
    result = _without_job_output(item, merge_patch(item | with_job_output(item), patch))
    _require_possible(item, result, now)
    return _apply_edit(item, result, [name for name in PROBED if name in patch])


def apply_revert(item: "Video", state: Item, now: int) -> "Video":
    """Return the item with the user-writable fields of `state`, an earlier state of the video from the audit trail.

    `state` must have the same values as the item in all other fields. The rules of PATCH, DELETE and restore apply,
    except that `expiresAt` may be in the past. Raises IllegalTransition or InvalidContent.
    """
    from shared.core.changes import changes_between, split_pointer  # few requests need this

    target = state["status"]
    live = restore(item) if item["status"] == "deleted" != target else item
    fixed = {name: value for name, value in live.items() if name == "status" or not is_writable(f"/{name}")}
    written = {name: value for name, value in state.items() if name != "status" and is_writable(f"/{name}")}
    present = {name: to_json_value(value) for name, value in live.items() if name not in fixed}
    fields = {split_pointer(change["field"])[0] for change in changes_between(present, written)}
    if fields or target not in (live["status"], "deleted"):
        if live["status"] == "deleted":
            raise IllegalTransition.deleted()
        if "posterTime" in fields:
            _require_moment(item, state)
        status = live["status"] if target == "deleted" else target
        _require_step(live["status"], status)
        result = cast("Video", {name: {} for name in MAPS} | fixed | written | {"status": status})
        _require_possible(live, result, None)
        live = _apply_edit(live, result, [name for name in PROBED if name in fields])
    return mark_deleted(live, now) if target == "deleted" else live


def is_writable(field: str) -> bool:
    """Return whether users can change the field to which `field`, a JSON Pointer into a stored video, refers."""
    from shared.core.changes import split_pointer

    return any(name in _WRITABLE for name in split_pointer(field)[:1])


def _require_step(status: str, target: str) -> None:
    if target != status and target not in TRANSITIONS[status]:
        allowed = " or ".join(sorted(TRANSITIONS[status]))
        raise IllegalTransition(f"A video that is {status} cannot become {target}. Set {allowed}, or delete it.")


def _require_moment(item: "Video", state: Item) -> None:
    """Raise InvalidContent if the `posterTime` of `state` is not less than the duration of the item's source video."""
    length = item.get("source", {}).get("media", {}).get("duration", 0)
    if state.get("posterTime", -1) >= length:
        detail = (
            f"must be less than {length}, the milliseconds of the source video, not {state['posterTime']}"
            if length
            else "must be omitted, because the video has no source video"
        )
        raise invalid_field("/posterTime", detail)


def _require_possible(old: "AnyVideo", new: "Video", now: int | None, at: str = "") -> None:
    """Raise InvalidContent if changed fields conflict with other fields of the item. The error names the changed
    fields.

    Unchanged fields are not checked, because an import may have written them. If `now` is `None`, `expiresAt` may be in
    the past. `at` is the JSON Pointer of the item's content in the body.
    """
    changed = {name for name in _EXCLUDING if new.get(name) != old.get(name)} & new.keys()
    faults: dict[str, str] = {}
    begin, end = new.get("publishAt", 0), new.get("expiresAt", LAST_SECOND + 1)
    # An admin who supplies `createdAt` may import a video that has expired since.
    first = now if old or now is None else min(now, new["createdAt"])
    if first is not None and "expiresAt" in changed and end <= first:
        limit = f"after the current time {now}" if first == now else f"after createdAt {first}"
        faults["/expiresAt"] = f"must be {limit}, not {end}"
    elif "expiresAt" in changed and end <= begin:
        faults["/expiresAt"] = f"must be after publishAt {begin}, not {end}"
    elif "publishAt" in changed and end <= begin:
        faults["/publishAt"] = f"must be before expiresAt {end}, not {begin}"
    if "seriesId" in changed and new["seriesId"] == new["videoId"]:
        faults["/seriesId"] = "must be the id of another video"
    if faults:
        raise invalid_fields([{"pointer": at + path, "detail": detail} for path, detail in faults.items()])


def _apply_edit(item: "Video", result: "Video", probed: Iterable[str]) -> "Video":
    """Return `result` with updated origins. `result` is the item after an edit, and `item` the item before it. Raises
    InvalidContent if `result` is invalid.

    Records the user as the origin of the PROBED fields in `probed`. Removes the failure if the status is not `failed`.
    """
    written = dict.fromkeys(probed, "person")
    origins = {name: origin for name, origin in (item.get("origins", {}) | written).items() if name in result}
    result["origins"] = origins
    if result["status"] != "failed":
        result.pop("failure", None)
    result = _normalise(result)
    from shared.videos.prebuilt import VideoContent

    content: Mapping[str, Value] = result
    VideoContent.read({name: to_json_value(content[name]) for name in _CONTENT if name in content})
    return result


def _without_job_output(item: "Video", shown: Item) -> "Video":
    """Return the edited item `shown` without the outputs of jobs. `item` is the stored item before the edit.

    Omits the entries of maps that equal a job's output in `item`, because another attribute stores this output.
    Thumbnails that the edit removed are also removed from `pictures`. Raises InvalidContent if the edit removed a
    rendition that a job created, because the video would never be ready again.
    """
    result: Item = {name: {} for name in MAPS} | shown
    output = job_output(item)
    removed = sorted(output["resolutions"].keys() - result["resolutions"].keys())
    if removed:
        detail = "cannot be removed, because a job created it. Set another URI instead"
        raise invalid_field(f"/resolutions/{removed[0]}", detail)
    for field, entries in output.items():
        result[field] = {name: entry for name, entry in result[field].items() if entries.get(name) != entry}
    if "pictures" in item:
        remaining = shown.get("thumbnails") or {}
        result["pictures"] = {name: entry for name, entry in item["pictures"].items() if name in remaining}
    return cast("Video", result)


def mark_deleted(item: "Video", now: int) -> "Video":
    """Return the item in the status `deleted`, with the attributes that `restore` needs.

    An item that is already deleted is returned unchanged.
    """
    if item["status"] == "deleted":
        return item
    return item | {"status": "deleted", "deletedAt": now, "statusBeforeDelete": item["status"]}


def restore(item: "Video") -> "Video":
    """Return a deleted item in the status that it had before its deletion. Raises IllegalTransition if the item is not
    deleted."""
    if item["status"] != "deleted":
        raise IllegalTransition(f"The video is {item['status']}, not deleted. Only deleted videos can be restored.")
    return without(item, "deletedAt", "statusBeforeDelete") | {"status": item["statusBeforeDelete"]}


def attach_source(item: "Video", source: "VideoSource") -> "Video":
    """Return the item with a new source video. Removes the failure, the poster time, and the thumbnails that jobs
    created from the previous source.

    Returns the item unchanged if the source equals the current one, or is from an earlier upload.
    """
    present = item.get("source", {})
    identity = (present.get("uploadId", ""), present.get("etag"))
    if identity[0] > source["uploadId"] or identity == (source["uploadId"], source["etag"]):
        return item
    result: Video = {**without(item, "pictures", "failure", "posterTime"), "source": source}
    if item["status"] == "deleted":
        result["statusBeforeDelete"] = "processing"  # the status after a restore of the video
    else:
        result["status"] = "processing"
    return result


def reject_upload(item: "Video", upload_id: str, reason: str, now: int) -> "Video":
    """Return the item with the failure of an upload, because its file does not have the declared type or size.

    Returns the item unchanged if the video is deleted, already has this failure, or has a source from this or a later
    upload. Also returns the item unchanged if a job failed on the current source. A video that has a source keeps its
    status, and jobs still process that source.
    """
    later = item.get("source", {}).get("uploadId", "") >= upload_id
    # A job's failure on the current source is more important to the owner than the failed upload.
    has_job_failure = item["status"] == "failed" and "source" in item and "failure" in item
    if item["status"] == "deleted" or later or has_job_failure or item.get("failure", {}).get("reason") == reason:
        return item
    result: Video = {**item, "failure": {"job": "upload", "reason": reason, "at": now}}
    if "source" not in item and item["status"] != "ready":
        result["status"] = "failed"
    return result


def apply_probe(item: "Video", media: Item, fields: Item, renditions: Item) -> "Video":
    """Return the item with the results of probing its source.

    `media` has the properties of the source that other jobs need. `fields` has values of PROBED fields, which never
    overwrite a user's values. `renditions` has the sizes of the renditions to create, by name.
    """
    item = _without_facts(item, retained=fields)
    origins = item.get("origins", {})
    # A field without an origin may have been written by a user.
    free = {
        name: value for name, value in fields.items() if name not in item or origins.get(name, "person") != "person"
    }
    source: VideoSource = {**item["source"], "media": media, "renditions": renditions, "made": {}}
    changed = cast("Video", item | free)
    return {**changed, "origins": origins | dict.fromkeys(free, "job"), "source": source}


def _without_facts(item: "Video", retained: Container[str] = ()) -> "Video":
    """Return the item without the fields that the probe of a previous source set. Keeps the fields in `retained`."""
    origins = item.get("origins", {})
    stale = {name for name in PROBED if origins.get(name) == "job" and name not in retained}
    if not stale:
        return item
    remaining = {name: origin for name, origin in origins.items() if name not in stale}
    return {**without(item, *stale), "origins": remaining}


def apply_pictures(item: "Video", pictures: Item) -> "Video":
    """Return the item with the thumbnails that a job created, by name. A new thumbnail replaces an earlier one of the
    same name."""
    return {**item, "pictures": item.get("pictures", {}) | pictures}


def add_rendition(item: "Video", name: str, uri: str, size: int | None = None) -> "Video":
    """Return the item with a new rendition at `uri`. `size` is in bytes; `None` if unknown.

    Sets the status `ready` if the item then has all required renditions.
    """
    present = item["source"]
    sizes = {other: size_of_other for other, size_of_other in present.get("sizes", {}).items() if other != name}
    source: VideoSource = {
        **present,
        "made": present["made"] | {name: uri},
        "sizes": sizes if size is None else sizes | {name: size},
    }
    result: Video = {**item, "source": source}
    # A failure of a job no longer applies, because all required jobs are done. A status that a user set stays.
    is_processing = item["status"] == "processing" or (item["status"] == "failed" and "failure" in item)
    if is_processing and source["renditions"].keys() <= source["made"].keys():
        result["status"] = "ready"
        result.pop("failure", None)
    return result


def apply_job_failure(item: "Video", job: str, reason: str, now: int) -> "Video":
    """Return the item with the failure of a required job. The status becomes `failed`, unless the video is ready."""
    item = _without_facts(item) if job == "probe" else item
    result: Video = {**item, "failure": {"job": job, "reason": reason, "at": now}}
    if item["status"] != "ready":
        result["status"] = "failed"
    return result


def choose_thumbnail(item: "Video", time: int) -> "Video":
    """Return the item with this poster time, in milliseconds. Removes a poster that the owner supplied."""
    poster = re.compile(r"poster(-\d+\.\w+)?")
    thumbnails = {name: value for name, value in item["thumbnails"].items() if not poster.fullmatch(name)}
    return item | {"posterTime": time, "thumbnails": thumbnails}


def merge_patch(target: Value, patch: Value) -> Value:
    """Return the result of applying a JSON Merge Patch to `target` (RFC 7396, section 2)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def _normalise(item: "Video") -> "Video":
    """Return the item with its tags as a set. Removes empty `tags`, because DynamoDB cannot store an empty set."""
    if "tags" not in item:
        return item
    result = without(item, "tags")
    if item["tags"]:
        result["tags"] = set(item["tags"])
    return result
