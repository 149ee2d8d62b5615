"""Models of request bodies. Validation errors name each invalid field."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from shared.web.prebuilt_model import parsed, validated


class Content(BaseModel):
    """Base class of models for JSON objects in request bodies. Unknown fields are errors."""

    # Building a model is slow, and a request needs only one model of a module, so each is built on first use.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    refusals: ClassVar[Mapping[str, str]] = {}
    """Error messages for unknown fields that clients may expect to be valid, by field name. Other unknown fields have a
    common message."""

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse a JSON body. Raises MalformedJson, or InvalidContent with a JSON Pointer to each invalid field."""
        return parsed(cls.model_validate_json, body, cls.refusals)

    @classmethod
    def read(cls, content: Any) -> Self:
        """Validate a part of a body that is already parsed. Raises InvalidContent with JSON Pointers relative to this
        part."""
        return validated(cls.model_validate, content, cls.refusals)


class NoContent(Content):
    """The body of a POST without content: empty, or `{}`."""


def merging(model: type[Content]) -> dict[str, Any]:
    """Return annotations for a model of JSON Merge Patches (RFC 7396). They are the fields of `model`, all of them
    optional.

    In a patch, null removes an optional field, and an omitted field stays unchanged. `model_dump(exclude_unset=True)`
    returns only the fields that a patch contains.
    """
    return {
        name: Annotated[field.annotation, *field.metadata, Field(default=None, description=field.description)]
        for name, field in model.model_fields.items()
    }
