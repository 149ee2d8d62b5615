"""Prebuilt models parse, refuse and dump content exactly as the models from which they are generated."""

import json
from importlib import import_module
from typing import Any

import pytest

from local.prebuilt import MODULES
from shared.core.errors import InvalidContent, MalformedJson
from shared.web.bodies import Content

MODELS = [(model, file.removesuffix(".py").replace("/", ".")) for file, models in MODULES.items() for model in models]
VIDEO_ID = "3F2504E0-4F89-41D3-9A0C-0305E82C3301"
VALUES: dict[str, Any] = {
    "externalId": "crm-7",
    "slug": "a-film",
    "title": "A film",
    "description": "Two\nlines",
    "duration": 60_000.0,
    "fileSize": 1,
    "format": "mp4",
    "resolution": "1920x1080",
    "videoCodec": "h264",
    "audioCodec": "aac",
    "frameRate": 25,
    "resolutions": {"1080p": "s3://bucket/1080p.mp4"},
    "tags": ["One", "two"],
    "category": "demos",
    "folder": " clients / acme",
    "releaseYear": 1999,
    "language": "en-NZ",
    "seriesId": VIDEO_ID,
    "season": 1,
    "episode": 2,
    "visibility": "public",
    "publishAt": 1,
    "expiresAt": 2,
    "metadata": {"codec": "x", "passes": 2.0, "is_hdr": True},
    "thumbnails": {"poster": {"url": "https://example.com/poster.jpg", "width": 640, "time": 5}},
    "videoId": VIDEO_ID,
    "userId": "alice",
    "createdAt": 1,
    "status": "ready",
    "viewerId": "session-1",
    "watchedMs": 1000,
    "at": 7,
}
"""A valid value of every field."""
OTHERS: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**400, "", "x" * 10_000, "\x00", "é", [], [[]], {}, {"": 1}),
    *([1] * 200, ["a", "A"], ["\ufdfa" * 64], {"poster": None}, {"poster": {"url": "http://a.example:80/"}}),
    *({"codec": None}, {"codec": "\x00"}, {"codec": 1e-200}, {"1080p": None}, {"poster": {"url": "s3://b", "x": 1}}),
]
BODIES = [
    b"",
    b" ",
    b"{",
    b"[]",
    b"null",
    b"7",
    b'{"title": "\xff"}',
    b'{"title": "\\ud800"}',
    b'{"unknown": 1}',
    b"{}",
]


@pytest.mark.parametrize(("model", "module"), MODELS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_prebuilt_model_parses_and_refuses_as_its_model_does(model: type[Content], module: str) -> None:
    prebuilt = getattr(import_module(module), model.__name__)
    assert not issubclass(prebuilt, Content)
    assert model.refusals == {}
    full = {name: VALUES[name] for name in model.model_fields}
    changed = [full | {name: value} for name in full for value in OTHERS]
    incomplete = [{other: full[other] for other in full if other != name} for name in full]
    bodies = [*BODIES, *(json.dumps(content).encode() for content in (full, *changed, *incomplete))]
    outcomes = [_outcome(model, body) for body in bodies]
    assert [_outcome(prebuilt, body) for body in bodies] == outcomes
    assert {type(outcome) for outcome in outcomes} == {list, tuple}, "the bodies must include valid and invalid ones"
    assert prebuilt.read(full).model_dump() == model.read(full).model_dump()


def _outcome(model: Any, body: bytes) -> list[Any] | tuple[Any, ...]:
    """Return the dumps of a parsed body, its fields that are set, and the types of its values; or the error."""
    try:
        content = model.parse(body)
    except (InvalidContent, MalformedJson) as error:
        return (type(error), error.detail, error.errors)
    dumps = [content.model_dump(), content.model_dump(exclude_none=True), content.model_dump(exclude_unset=True)]
    return [*dumps, content.__pydantic_fields_set__, {name: type(value) for name, value in dumps[0].items()}]
