"""Tests of docs/data-model.md: it lists every entity, and exactly the attributes that the service stores."""

import re
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from local.data_model import COMMON, ITEMS, RELATIONS, names_in
from local.stream_records import EXPIRY, stream_record
from local.testbed.background import BackgroundWork
from local.testbed.calls import put_examples
from local.testbed.feed_changes import append_changes
from local.testbed.harness import MEDIA_BUCKET, Clock, make_api
from local.testbed.wire import throttle_once
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.stream import Record
from shared.background.ledger import ROOM, deduplication_key
from shared.background.reconcile import Reconcile
from shared.captions.store import CaptionStore
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.entities import Job, Playlist, PlaylistEntry, Rating, RatingTotals, Upload, Video, Webhook, WebhookState
from shared.feed.change import change_of
from shared.feed.log import Feed
from shared.history.entries import entry
from shared.history.revert_runs import RevertRequest, RunStore
from shared.history.trail import AuditStore
from shared.job_kinds import JOB_QUEUES
from shared.processing.messages import tally_message
from shared.relations.ratings import RatingStore
from shared.routes import ROUTES
from shared.schema import (
    AUDIT_ENTITIES,
    ENTITIES,
    ENTRY,
    HEALTH,
    JOB,
    MEMBERSHIP,
    PLAYLIST,
    RATING,
    RATING_TOTALS,
    UPLOAD,
    VIDEO,
    WEBHOOK,
    WEBHOOK_STATE,
    Entity,
)
from shared.search.builder import IndexBuilder
from shared.search.generations import EmbeddedStore, Generations, LocalCopy, PointerStore
from shared.search.loader import DocumentLoader
from shared.videos.counters import LOOK_SECONDS, MERGE_SECONDS, UNCOUNTED, ViewCounters
from shared.videos.video import apply_pictures
from shared.views.rankings import Rankings
from shared.webhooks.delivery_state import DeliveryStateStore, as_due
from tests.integration.contents import items_of
from tests.unit.test_videos import EVERYTHING
from tools.lines import LineCheckpoint
from tools.work_file import work_file

STORED = tuple(entity for entity in (*ENTITIES, *AUDIT_ENTITIES) if entity is not HEALTH)

Attributes = dict[str, set[str]]
WORKER = Caller.job("test")
TYPES: dict[Entity, Any] = {
    VIDEO: Video,
    UPLOAD: Upload,
    JOB: Job,
    RATING: Rating,
    RATING_TOTALS: RatingTotals,
    PLAYLIST: Playlist,
    ENTRY: PlaylistEntry,
    MEMBERSHIP: PlaylistEntry,
    WEBHOOK: Webhook,
    WEBHOOK_STATE: WebhookState,
}
"""Types of shared/entities.py, by entity."""
REQUIRED = {entity.name: type_.__required_keys__ for entity, type_ in TYPES.items()}


DOCUMENTED = {item.entity.name: item.names | names_in(COMMON) for item in ITEMS}
"""Documented attributes, by entity name."""
RELATION = re.compile("|".join(re.sub(r"<.+?>", ".+", relation.rel) for relation in RELATIONS))
"""Pattern that matches any documented value of `rel`."""


def _entity_of(item: Item) -> str:
    for entity in STORED:
        pattern = [re.sub(r"\\\{\w+\\\}", ".*", re.escape(template)) for template in (entity.pk, entity.sk)]
        if re.fullmatch(pattern[0], str(item["pk"])) and re.fullmatch(pattern[1], str(item["sk"])):
            return entity.name
    raise AssertionError(f"{item} is no entity of the schema")


@pytest.fixture
def stored(table: Table, clock: Clock, objects: Objects, tmp_path: Path) -> Attributes:
    """Return the attributes of each entity, by its name, after requests and jobs that store every attribute."""
    api, background = make_api(table, clock, objects), BackgroundWork(table, clock)
    attributes: Attributes = defaultdict(set)

    def record(*items: Item) -> None:
        for item in items:
            entity = _entity_of(item)
            attributes[entity] |= set(item)
            assert REQUIRED.get(entity, set()) <= item.keys(), entity
            assert "rel" not in item or RELATION.fullmatch(str(item["rel"])), item["rel"]

    times = {"publishAt": int(clock.now) - 10, "expiresAt": int(clock.now) + 1000, "duration": 60_000}
    video = api.publish(**EVERYTHING | times)["videoId"]
    path = f"/v1/videos/{video}"
    background.settle_totals()
    deduplication_keys = [deduplication_key(str(number), int(clock.now) + number) for number in range(ROOM + 1)]
    background.tally(tally_message(video, {"views": [[mark, 1000] for mark in deduplication_keys]}))
    background.settle()
    record(*items_of(table))
    for function in {route.function for route in ROUTES}:
        put_examples(api, function, videoId=video)
    once = {"idempotency-key": "k"}
    requests: tuple[tuple[str, str, Item], ...] = (
        ("POST", "/v1/videos", {"title": "Once"}),
        ("PUT", f"{path}/rating", {"like": True}),
        ("POST", "/v1/playlists", {"title": "Sea", "description": "All of it"}),
    )
    for method, target, body in requests:
        headers = once if method == "POST" else {}
        assert api.request(method, target, json_body=body, headers=headers).status < 300, target
    captions = {"text": "0" * 32, "cues": 1, "size": 55, "origin": "owner"}
    from_source = captions | {"origin": "film", "upload": "0001"}
    for language, content in (("en", captions), ("de", from_source)):
        CaptionStore(table).put(video, language, content, Caller("alice", frozenset()), int(clock()), lambda _: True)
    assert api.put(f"{path}/rating", {"value": 8}, user="bob").status < 300
    assert api.put(f"{path}/rating", {"like": False}, user="dora").status < 300
    for user in ("alice", "bob"):
        assert api.post(f"{path}/views", {"watchedMs": 1000}, user=user).status < 300
    for _ in range(2):
        body = {"viewerId": "tv", "watchedMs": 1000}
        assert api.post(f"{path}/views", body, user="bob", headers=once).status < 300
    RatingStore(table).set_imported(video, 7.5, 100, WORKER.acting_for("import"), int(clock()), owner="alice")
    reconcile = Reconcile(table, clock=clock, sleep=lambda _: None)
    reconcile.run(True, lambda _: None)
    reconcile.store_report()
    playlist = api.get("/v1/playlists").json["items"][0]["playlistId"]
    assert api.post(f"/v1/playlists/{playlist}/entries", {"videoId": video}).status == 201
    record(*items_of(table))
    for target in (
        *(f"{path}/{child}" for child in ("credits/sam", "releases/NZ/mi", "captions/en", "chapters")),
        f"/v1/playlists/{playlist}",
    ):
        assert api.delete(target).status == 204
    for size in (1000, 200_000_000):
        assert api.post(f"{path}/upload", {"contentType": "video/mp4", "fileSize": size}).status == 201
    background.arrive(video)
    background.probe(video, videoCodec="h264", frameRate=25, fileSize=1000)
    assert api.post(f"{path}/thumbnail", {"position": 7500}).status < 300
    background.settle_totals()
    poster = background.message("thumbnails", "poster").job_attempt
    assert background.jobs.claim(poster, WORKER, int(clock()))
    record(*items_of(table))
    pictures: Item = {"poster": {"url": "s3://media/thumbnails/a.jpg"}}
    assert background.jobs.complete(poster, {}, WORKER, int(clock()), lambda item: apply_pictures(item, pictures))
    rendition = background.message("transcode", "transcode.240p").job_attempt
    assert background.jobs.claim(rendition, WORKER, int(clock()))
    assert background.jobs.fail(rendition, "It is damaged.", WORKER, int(clock()), retry=False)
    assert api.post(f"{path}/jobs/transcode.240p/retry").status == 202
    background.settle_totals()
    removed_video = next(item for item in items_of(table) if item["sk"] == "#META" and item["pk"] == f"VIDEO#{video}")
    audit = AuditStore(Table("VideoAudit", table.client))
    feed = Feed(audit.table, clock)
    removed = [Record(raw).old for raw in background.seen_records if raw["eventName"] == "REMOVE"]
    record(*(item for item in removed if "removing" in item))
    for raw in (*background.seen_records, stream_record(removed_video, None, sequence=10**9, identity=EXPIRY)):
        audited = entry(Record(raw), days=400)
        if audited:
            audit.add(audited)
            append_changes(feed, change_of(audited))
    counters, now = ViewCounters(table), int(clock())
    counters.add(video, dict.fromkeys(UNCOUNTED, 1), now)
    with throttle_once(table.client, "UpdateItem"):
        counters.add(video, {"views": 1}, now)
    for later in (now, now + LOOK_SECONDS, now + LOOK_SECONDS + MERGE_SECONDS):
        counters.merge_shards(video, later)
        record(*items_of(table))
    assert api.delete(path).status == 204
    failing = str(api.create()["videoId"])
    background.arrive(failing)
    probe = background.message("probe", "probe").job_attempt
    assert background.jobs.claim(probe, WORKER, int(clock()))
    assert background.jobs.fail(probe, "It is no film.", WORKER, int(clock()), retry=False)
    for _ in range(JOB_QUEUES["probe"] + 1):
        background.arrive(str(api.create()["videoId"]))
    background.settle_totals()
    with work_file(tmp_path / "import.state", {}, table) as work:
        work.commit("films.jsonl", LineCheckpoint(1, 1), {})
    Rankings(table).compute(int(clock()))
    runs = RunStore(table)
    run = runs.begin("set", RevertRequest(Caller("alice", frozenset(), correlation_id="run")), int(clock()))
    waits: Item = {"of": f"VIDEO#{video}", "entries": ["1#1"], "last": False}
    still = run | {"after": "x", "walked": True, "moved": False}
    about = {"owner": "alice", "folder": "a", "to": "b", "walks": 1, "found": []}
    runs.begin("move", RevertRequest(Caller("alice", frozenset(), correlation_id="move")), int(clock()), **about)
    runs.advance(run, still, int(clock()), reports=[{"result": "skipped"}], waits=[waits])
    hook = api.post("/v1/webhooks", {"url": "https://hooks.acme.com/", "description": "The index"}).json["webhookId"]
    assert api.post(f"/v1/webhooks/{hook}/rotate").status == 200
    assert api.post(f"/v1/webhooks/{hook}/test").status == 200
    states = DeliveryStateStore(table)
    state, webhook = states.read(hook), states.webhook(hook)
    assert state
    assert webhook
    attempt: WebhookState = state | {
        "failures": 3,
        "failingSince": 1,
        "oldestWaiting": 1,
        "caughtUpAt": 1,
        "delivered": ["c"],
        "tried": {"d": 3},
        "queuedAt": 1,
        "answerMs": 7,
    }
    state = states.save(state, as_due(attempt | {"lease": "worker", "leaseUntil": 1}, 1), int(clock()))
    record(*items_of(table))
    states.add_attempts(hook, 1, 1, [])
    states.set_notified(state, int(clock()))
    states.pause(state, state, webhook, "The receiver returned 410 Gone.", int(clock()))
    record(*items_of(table), *items_of(audit.table))
    loader = DocumentLoader(table, objects, MEDIA_BUCKET)
    builder = IndexBuilder(
        EmbeddedStore(Generations(table, objects, MEDIA_BUCKET, clock), LocalCopy(tmp_path / "index")),
        table,
        feed,
        loader,
        clock=clock,
        heartbeat=nullcontext,
    )
    slices = iter([False])

    def in_time() -> bool:
        record(*items_of(table))  # while the builder holds the lease
        return next(slices, True)

    for from_scratch in (False, False, True):
        builder.run(in_time, from_scratch=from_scratch)
        record(*items_of(table))
    PointerStore(table, clock).request_rebuild()
    record(*items_of(table))
    return attributes


@pytest.mark.parametrize("entity", TYPES, ids=lambda entity: entity.name)
def test_type_of_an_entity_has_the_documented_attributes(entity: Entity) -> None:
    assert TYPES[entity].__required_keys__ | TYPES[entity].__optional_keys__ == DOCUMENTED[entity.name]


def test_every_entity_is_described_in_the_order_of_the_schema() -> None:
    assert [item.entity for item in ITEMS] == [*ENTITIES, *AUDIT_ENTITIES]


@pytest.mark.slow
def test_every_stored_attribute_is_documented_and_every_documented_one_is_stored(stored: Attributes) -> None:
    assert {name: names | names_in(COMMON) for name, names in stored.items()} == {
        entity.name: DOCUMENTED[entity.name] for entity in STORED
    }
