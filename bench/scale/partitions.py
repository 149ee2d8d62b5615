"""Partitions of tables and indexes that requests read and write, and the load at which one of them reaches its limit."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bench.cost.run import MeasuredRequest
from local.testbed.limits import READS, WRITES
from local.testbed.meter import Partition
from shared.schema import (
    AUDIT_ENTITIES,
    AUDIT_INDEXES,
    AUDIT_TABLE_NAME,
    DUE,
    ENTITIES,
    INDEXES,
    LANES,
    MAX_VIEW_SHARDS,
    RELATION_INDEX,
    SHARDS,
    TABLE_NAME,
    TAGS,
    USERS,
    VIEW_COUNTER,
    Entity,
    follower_relation,
    in_playlist_relation,
    job_relation,
    person_relation,
    playlists_relation,
    series_relation,
)

_ENTITIES = {TABLE_NAME: ENTITIES, AUDIT_TABLE_NAME: AUDIT_ENTITIES}
_BY_INDEX = {index.name: index for index in (*INDEXES, *AUDIT_INDEXES)}
_VARIABLES: Mapping[str, int] = {"{shard}": SHARDS, "{lane}": LANES}
"""Number of values of each variable in key templates. Items that belong together are spread over this number of
partitions."""
ANY = "..."
"""Placeholder for the variable part of a partition of RelationIndex."""
_SINGLE = (
    *(TAGS, USERS, DUE, follower_relation(None), f"{follower_relation('')}"),
    *(relation("") for relation in (person_relation, playlists_relation, in_playlist_relation, job_relation)),
    series_relation("", "").partition("#")[0] + "#",
)
"""Relations in RelationIndex that each have one partition instead of SHARDS partitions, or prefixes of such relations.
A prefix ends with `#`.
"""


@dataclass(frozen=True)
class Spread:
    """Set of partitions over which items that belong together are spread, such as the four partitions of a list."""

    place: str
    """Name of the table or index."""
    name: str
    """Key of the partitions, without the part that selects one of them."""
    template: str
    """Key of the partitions with a placeholder for each variable part, such as `VIDEO#{videoId}` or `TAG#...`."""
    reads: int
    """Number of partitions over which reads are spread."""
    writes: int

    @property
    def is_shared(self) -> bool:
        """Whether the key of the partitions has no variable part. All requests of an access pattern then use the same
        partitions."""
        return "{" not in self.template and not self.template.endswith(ANY)


@dataclass
class SpreadUse:
    """Units that one request consumes in a set of partitions."""

    reads: float = 0.0
    writes: float = 0.0

    def first(self, spread: Spread) -> tuple[float, str]:
        """Return the number of requests per second at which the partitions reach a limit, and the kind of that limit:
        `reads` or `writes`."""
        return min((limit / units, kind) for kind, units, limit in self.of_partition(spread))

    def of_partition(self, spread: Spread) -> list[tuple[str, float, int]]:
        """Return a tuple for each kind of units, `reads` and `writes`. A kind without units is omitted.

        A tuple has the kind, the units that the request consumes per partition, and the maximum units per second of a
        partition.
        """
        kinds = (("reads", self.reads / spread.reads, READS), ("writes", self.writes / spread.writes, WRITES))
        return [kind for kind in kinds if kind[1]]


@dataclass
class PartitionUse:
    """Units that a measured request consumes, by set of partitions and by table or index."""

    spreads: dict[Spread, SpreadUse] = field(default_factory=dict)
    places: dict[str, SpreadUse] = field(default_factory=dict)

    @classmethod
    def of(cls, request: MeasuredRequest) -> "PartitionUse":
        """Return the units of a request."""
        use = cls()
        for partition, units in request.read_from.items():
            for each in use.both(partition):
                each.reads += units
        for partition, units in request.written_to.items():
            for each in use.both(partition):
                each.writes += units
        return use

    def repeated(self, template: str, times: float) -> "PartitionUse":
        """Return the units of this request if it read `times` items from the sets of partitions with this template. As
        measured, the request reads one item from each of these sets.

        The tables and indexes of these sets share the additional read units equally. The units of the sets stay
        unchanged, because the additional items are in other sets.
        """
        matching = [(spread.place, use.reads) for spread, use in self.spreads.items() if spread.template == template]
        repeated = PartitionUse(dict(self.spreads), {name: replace(use) for name, use in self.places.items()})
        for place, units in matching:
            repeated.places[place].reads += units * (times / len(matching) - 1)
        return repeated

    def both(self, partition: Partition) -> tuple[SpreadUse, SpreadUse]:
        """Return two counters of units: for the set of partitions that contains this partition, and for its table or
        index. Creates missing counters."""
        return (
            self.spreads.setdefault(spread_of(partition), SpreadUse()),
            self.places.setdefault(partition[0], SpreadUse()),
        )

    def first(self, wanted: Callable[[Spread], bool]) -> tuple[float, str, Spread] | None:
        """Return the set of partitions that reaches a limit first, among the sets that `wanted` accepts. `None` if it
        accepts none.

        The result is a tuple: the requests per second at which the set reaches the limit, `reads` or `writes`, and the
        set.
        """
        found = [(*use.first(spread), spread) for spread, use in self.spreads.items() if wanted(spread)]
        return min(found, key=lambda each: (each[0], each[2].template)) if found else None


def spread_of(partition: Partition) -> Spread:
    """Return the set of partitions to which a partition belongs. Raises ValueError if its key belongs to no entity."""
    place, value = partition
    if place in _BY_INDEX:
        return _spread_of_index(place, value)
    entity = _entity(place, value)
    shards, name, template = 1, value, entity.pk
    for variable, number in _VARIABLES.items():
        if variable in template:
            shards, name = number, value.rpartition("#")[0]
            template = template.removesuffix(f"#{variable}")
    if entity is VIEW_COUNTER:
        # Reads begin at shard 0, which shows whether there are more shards. Views are written to any shard.
        return Spread(place, name, template, 1, MAX_VIEW_SHARDS)
    return Spread(place, name, template, shards, shards)


def _entity(table: str, value: str) -> Entity:
    for entity in _ENTITIES[table]:
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^#]*", re.escape(entity.pk)), value):
            return entity
    raise ValueError(f"{value} of {table} belongs to no entity")


def _spread_of_index(place: str, value: str) -> Spread:
    """Return the set of partitions to which a partition of an index belongs. `value` has the partition's key
    attributes, joined by `#`.

    Only the first attribute can contain `#`, because all others are numbers.
    """
    index = _BY_INDEX[place]
    first, *numbers = value.rsplit("#", len(index.partition) - 1)
    attributes = [attribute.name for attribute in index.partition]
    shards, parts, names = 1, [first], [f"{{{attributes[0]}}}"]
    if index is RELATION_INDEX:
        kind, separator, _ = first.partition("#")
        names = [kind + (f"{separator}{ANY}" if separator else "")]
    for name, number in zip(attributes[1:], numbers, strict=True):
        if name.endswith("Shard"):
            is_single = index is RELATION_INDEX and any(
                first.startswith(single) if single.endswith("#") else first == single for single in _SINGLE
            )
            shards = 1 if is_single else SHARDS
        else:
            parts.append(number)
            names.append(f"{{{name}}}")
    return Spread(place, "#".join(parts), "#".join(names), shards, shards)
