"""Reservations: items that make a value unique among the videos of an owner.

DynamoDB enforces uniqueness only for primary keys, not for index keys. Therefore the service stores an item for each
value of a field in `UNIQUE`, with the value in the item's key. The transaction that writes the video also writes this
item, on the condition that it does not exist.

A deleted video keeps its reservations until it is purged, because it can be restored. A reservation is stale if its
video no longer exists or has another value. The next video with the value takes over a stale reservation.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.core.attributes import Value
from shared.core.caller import request_id_of, with_request_id
from shared.core.errors import AlreadyExists
from shared.schema import PARTITION_KEY, RESERVATION, SCHEMA_VERSION, VIDEO
from shared.video_fields import UNIQUE, VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged

if TYPE_CHECKING:
    from shared.entities import AnyVideo


class Reservation(NamedTuple):
    """Value of a unique field, and the key of the item that reserves the value for an owner's video."""

    owner: str
    field: str
    value: str
    key: Key


def reservations(video: "AnyVideo") -> list[Reservation]:
    """Return the reservations that a video needs: one per value of its unique fields."""
    stored: Mapping[str, Value] = video
    return [reservation(video["userId"], name, stored[name]) for name in UNIQUE if name in stored]


def reservation(owner: str, field: str, value: str) -> Reservation:
    """Return the reservation of a value among the videos of this owner."""
    return Reservation(owner, field, value, RESERVATION.key(userId=owner, field=field, value=value))


def find(table: Table, owner: str, field: str, value: str) -> str | None:
    """Return the videoId of the video that has reserved a value; `None` if the value is free.

    The reservation may be stale. Costs one strongly consistent GetItem.
    """
    item = table.get(reservation(owner, field, value).key, attributes=("videoId",), consistent=True)
    return item["videoId"] if item else None


def find_video(table: Table, owner: str, field: str, value: str, now: int, taken: Mapping[str, str]) -> str | None:
    """Return the videoId of the owner's video that has this value in the unique field. `None` if no such video exists.

    `taken` has the reservations that preceding operations of a dry run would change. The keys are partition keys of
    reservations. The values are video ids, or empty strings if the reservations would be freed. Costs two consistent
    GetItems.
    """
    reserved = reservation(owner, field, value)
    if reserved.key[PARTITION_KEY] in taken:
        return taken[reserved.key[PARTITION_KEY]] or None
    holder = find(table, owner, field, value)
    return holder if holder and has_value(table, holder, reserved, now) else None


def has_value(table: Table, video_id: str, reserved: Reservation, now: int) -> bool:
    """Return whether a video exists and has the value of a reservation. Costs one consistent GetItem."""
    attributes = (*VISIBILITY_ATTRIBUTES, reserved.field)
    video = table.get(VIDEO.key(videoId=video_id), attributes=attributes, consistent=True)
    return video is not None and not is_purged(video, now) and reserved in reservations(video)


def held_by(video_id: str) -> Expression:
    """Return the condition that a reservation does not exist, or belongs to this video."""
    return Expression.of("attribute_not_exists(#pk) OR #videoId = :holder", holder=video_id)


class ReservationMove:
    """Writes that reserve the unique values of a changed video and free its previous unique values.

    Append `writes()` to the transaction. If the transaction fails at one of these writes, `resolve` decides whether
    another attempt can succeed.
    """

    def __init__(self, table: Table, old: "AnyVideo", new: "AnyVideo", holders: dict[str, str]) -> None:
        """Compare the stored video `old` with its next version `new`. For a new video, `old` is `{}`.

        `holders` maps partition keys of stale reservations to the ids of the other videos that hold them. `resolve`
        adds entries, and all attempts of one change share the mapping.
        """
        self._table = table
        self._video = new
        before, after = reservations(old), reservations(new)
        self._added = [reserved for reserved in after if reserved not in before]
        self._removed = [reserved for reserved in before if reserved not in after]
        self._holders = holders

    def writes(self) -> list[Write]:
        """Return the writes to add to the transaction. Empty if no unique value changes."""
        video = self._video
        signed = with_request_id(
            {
                "videoId": video["videoId"],
                "schemaVersion": SCHEMA_VERSION,
                "updatedAt": video["updatedAt"],
                "updatedBy": video["updatedBy"],
            },
            request_id_of(video),
        )
        puts = [self._table.put({**reserved.key, **signed}, condition=self._held(reserved)) for reserved in self._added]
        return puts + [self._table.remove(reserved.key, condition=self._held(reserved)) for reserved in self._own()]

    def _held(self, reserved: Reservation) -> Expression:
        """Return the condition that a reservation does not exist, or that the expected video holds it.

        The expected video is usually the changed video. If `resolve` has found that the reservation is stale, the
        expected video is the video whose id the reservation still contains.
        """
        return held_by(self._holders.get(reserved.key[PARTITION_KEY]) or self._video["videoId"])

    def _own(self) -> Sequence[Reservation]:
        return [reserved for reserved in self._removed if reserved.key[PARTITION_KEY] not in self._holders]

    def require_free(self, now: int, taken: dict[str, str]) -> None:
        """Raise AlreadyExists if a write of `writes()` would fail now. Costs up to two GetItems for each added value.

        `taken` has the reservations that preceding operations of a dry run would change. `find_video` describes its
        keys and values. This method adds the changes of this video to `taken`.
        """
        own = self._video["videoId"]
        for reserved in self._added:
            pk = reserved.key[PARTITION_KEY]
            holder = taken[pk] if pk in taken else find(self._table, *reserved[:3])
            if holder and holder != own:
                if pk in taken:
                    raise taken_error(reserved.field, holder)
                self._require_stale(reserved, holder, now)
            taken[pk] = own
        taken |= {reserved.key[PARTITION_KEY]: "" for reserved in self._removed}

    def resolve(self, failure: ConditionFailed, position: int, now: int) -> None:
        """Prepare another attempt after the condition of a write was false. `position` is the write's index in
        `writes()`.

        Raises AlreadyExists if another video of the owner has the value. Costs one GetItem.
        """
        reserved = [*self._added, *self._own()][position]
        holder = failure.item["videoId"] if failure.item else self._video["videoId"]
        if reserved in self._added:
            self._require_stale(reserved, holder, now)
        self._holders[reserved.key[PARTITION_KEY]] = holder

    def _require_stale(self, reserved: Reservation, holder: str, now: int) -> None:
        """Raise AlreadyExists if the video `holder` exists and has the value. Otherwise, the reservation is stale."""
        if has_value(self._table, holder, reserved, now):
            raise taken_error(reserved.field, holder)


def taken_error(field: str, holder: str) -> AlreadyExists:
    """Return the error for a unique value that another video of the owner already has. The message contains the id of
    that video."""
    detail = f"Another video of the owner, {holder}, has this {field}. Send another value."
    return AlreadyExists(detail, errors=[{"pointer": f"/{field}", "detail": f"is the value of the video {holder}"}])
