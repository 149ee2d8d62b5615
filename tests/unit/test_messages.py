"""Error messages of request bodies: our own text covers every error that the models can report."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_core._pydantic_core import list_all_errors

import shared
from shared.core.checks import FORMS
from shared.core.errors import InvalidContent, MalformedJson
from shared.relations.models import CreditContent, EntryMove, RatingContent
from shared.videos.models import NewVideo
from shared.web.bodies import Content
from shared.web.error_messages import TYPES

_LENGTHS = {"max_length": {"too_long"}, "min_length": {"too_short"}}
_BOUNDS = {"ge": {"greater_than_equal"}, "le": {"less_than_equal"}}
_TEXT = {"string_type", "string_unicode"}
REPORTS: dict[str, dict[str, set[str]]] = {
    "any": {},
    "bool": {"": {"bool_type"}},
    "default": {"default": set()},
    "dict": {"": {"dict_type"}, **_LENGTHS, "keys_schema": {"invalid_key"}},
    "float": {"": {"float_type", "finite_number"}, **_BOUNDS},
    "function-after": {"function": {"value_error"}},
    "function-before": {"function": {"value_error"}},
    "function-plain": {"function": {"value_error"}},
    "int": {"": {"int_type", "int_from_float", "int_parsing", "int_parsing_size"}, **_BOUNDS},
    "list": {"": {"list_type"}, **_LENGTHS},
    "literal": {"": {"literal_error"}},
    "model": {"": {"model_type"}},
    "model-field": {},
    "model-fields": {"": {"missing", "extra_forbidden", "recursion_loop"}},
    "no-info": {"function": set()},
    "with-info": {"function": set()},
    "nullable": {},
    "str": {
        "": _TEXT,
        "max_length": {"string_too_long"},
        "min_length": {"string_too_short"},
        "pattern": {"string_pattern_mismatch"},
    },
}
"""Error types that each kind of schema can report. The empty key lists type errors, other keys are constraints."""
WITHOUT_ERRORS = {
    *("type", "ref", "metadata", "serialization", "schema", "items_schema", "values_schema", "expected", "strict"),
    *("cls", "config", "custom_init", "root_model", "computed_fields", "fields", "model_name"),
    *("serialization_alias", "validation_alias", "field_name"),
}


def _models(parent: type[Content] = Content) -> Iterator[type[Content]]:
    for module in pkgutil.walk_packages(shared.__path__, "shared."):
        if module.name.endswith("models"):
            importlib.import_module(module.name)
    for model in parent.__subclasses__():
        if model.__module__.startswith("shared."):
            model.model_rebuild()
            yield model
            yield from _models(model)


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for name, part in schema.items():
            if name not in ("metadata", "serialization"):
                yield from _parts(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _parts(part)


PARTS = [part for model in set(_models()) for part in _parts(model.__pydantic_core_schema__)]


def test_models_report_only_errors_that_have_a_message() -> None:
    assert len(PARTS) > 500
    reported = {"json_invalid"}
    for part in PARTS:
        errors = REPORTS[part["type"]]
        constraints = part.keys() - WITHOUT_ERRORS
        assert constraints <= errors.keys(), part
        reported |= {error for name in ("", *constraints) for error in errors.get(name, ())}
    assert reported - {"json_invalid"} <= TYPES


def test_messages_are_for_errors_that_pydantic_has() -> None:
    assert {error["type"] for error in list_all_errors()} >= TYPES
    assert {error for errors in REPORTS.values() for group in errors.values() for error in group} >= TYPES


def test_every_pattern_of_models_has_a_message_in_words() -> None:
    assert {part["pattern"] for part in PARTS if "pattern" in part} <= FORMS.keys()


def test_errors_of_models_contain_no_message_of_pydantic() -> None:
    sentences = [error["message_template_python"].partition("{")[0] for error in list_all_errors()]
    openings = {" ".join(sentence.split()[:3]) for sentence in sentences if len(sentence.split()) > 2}
    bad: list[Any] = [None, True, 7, -1, 1.5, 10**400, "", "x" * 10_000, "\x00", "\ud800", [], [[]], [1] * 200, {"": 1}]
    details = []
    for model in set(_models()):
        for value in [*bad, *(dict.fromkeys(_names(model), value) for value in bad), {"unknown": 1}]:
            try:
                model.read(value)
            except InvalidContent as error:
                details += [fault["detail"] for fault in error.errors]
    assert len(set(details)) > 50
    assert [detail for detail in details if any(opening in detail for opening in openings)] == []


def _names(model: type[Content]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize(
    ("model", "body", "errors"),
    [
        (NewVideo, [], {"": "must be an object, not a list"}),
        (NewVideo, None, {"": "must be an object, not null"}),
        (NewVideo, {}, {"/title": "is required"}),
        (NewVideo, {"title": ""}, {"/title": "must not be empty"}),
        (NewVideo, {"title": "x" * 301}, {"/title": "must have at most 300 characters, not 301"}),
        (NewVideo, {"title": 7}, {"/title": "must be text, not 7"}),
        (NewVideo, {"title": "t", "duration": 1.5}, {"/duration": "must be a whole number, not 1.5"}),
        (NewVideo, {"title": "t", "duration": "12"}, {"/duration": "must be a whole number, not text"}),
        (NewVideo, {"title": "t", "duration": True}, {"/duration": "must be a whole number, not true"}),
        (NewVideo, {"title": "t", "duration": -1}, {"/duration": "must be at least 0, not -1"}),
        (NewVideo, {"title": "t", "releaseYear": 10_000}, {"/releaseYear": "must be at most 9999, not 10000"}),
        (
            NewVideo,
            {"title": "t", "releaseYear": 10**400},
            {"/releaseYear": "must be at most 9999, not a larger number"},
        ),
        (
            NewVideo,
            {"title": "t", "frameRate": float("nan")},
            {"/frameRate": "must be at most 1000, not NaN or infinity"},
        ),
        (NewVideo, {"title": "t", "frameRate": 0}, {"/frameRate": "must be at least 0.001, not 0"}),
        (
            NewVideo,
            {"title": "t", "visibility": "se\x1bcret"},
            {"/visibility": "must be public or private, not se?cret"},
        ),
        (NewVideo, {"title": "t", "visibility": None}, {"/visibility": "must be public or private, not null"}),
        (NewVideo, {"title": "t", "tags": ["a"] * 31}, {"/tags": "must have at most 30 elements, not 31"}),
        (NewVideo, {"title": "t", "tags": "a"}, {"/tags": "must be a list, not text"}),
        (NewVideo, {"title": "t", "x": 1}, {"/x": "is unknown or read-only"}),
        (CreditContent, {"ordering": 1, "roles": []}, {"/roles": "must not be empty"}),
        (RatingContent, {"like": "yes"}, {"/like": "must be true or false, not text"}),
        (EntryMove, {}, {"": "must have either `after` or `before`"}),
    ],
    ids=str,
)
def test_a_message_names_the_allowed_values_and_the_value_sent(
    model: type[Content], body: Any, errors: dict[str, str]
) -> None:
    with pytest.raises(InvalidContent) as refused:
        model.parse(json.dumps(body).encode())
    assert {error["pointer"]: error["detail"] for error in refused.value.errors} == errors


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "The body is empty; send a JSON object."),
        (b" \r\n", "The body is empty; send a JSON object."),
        (b"{", "The body is not JSON: it ends too early (line 1 column 1)."),
        (b'{"title": "\xff"}', "The body is not JSON: a string is not UTF-8 (line 1 column 12)."),
        (b'{"title": "t",\n}', "The body is not JSON: a comma has nothing after it (line 2 column 1)."),
        (b'{"title": "t"} x', "The body is not JSON: it continues after its end (line 1 column 16)."),
        (b"{'title': 't'}", "The body is not JSON: a name must be in double quotes (line 1 column 2)."),
        (b"[" * 1000, "The body is not JSON: it is nested too deeply (line 1 column 202)."),
        (
            b'{"title": "\\ud800"}',
            "The body is not JSON: an escape is a lone surrogate (line 1 column 18).",
        ),
        (b"nonsense", "The body is not JSON: a value is missing or malformed (line 1 column 2)."),
    ],
)
def test_a_malformed_body_is_refused_with_the_reason_and_the_position(body: bytes, detail: str) -> None:
    with pytest.raises(MalformedJson) as refused:
        NewVideo.parse(body)
    assert refused.value.detail == detail
