"""Models of request bodies. Validation errors name each invalid field."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from shared.web.prebuilt_model import parsed, validated


class Content(BaseModel):
    """An object in a body. A field that is not one of the model's is an error."""

    # Building a model is slow, and a request needs only one model of a module, so each is built on first use.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    refusals: ClassVar[Mapping[str, str]] = {}
    """Error details for unknown fields that clients may expect to be valid, by name."""

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse a body; raises MalformedJson, or InvalidContent with a pointer for each invalid field."""
        return parsed(cls.model_validate_json, body, cls.refusals)

    @classmethod
    def read(cls, content: Any) -> Self:
        """Validate a part of a body that is parsed already; raises InvalidContent with pointers relative to that part."""
        return validated(cls.model_validate, content, cls.refusals)


class NoContent(Content):
    """The body of a POST that needs none: empty, or `{}`."""


def merging(model: type[Content]) -> dict[str, Any]:
    """Return the annotations of a JSON Merge Patch (RFC 7396) for a model: every field is optional.

    Null removes an optional field. Read patches with `model_dump(exclude_unset=True)`, because the defaults have no meaning.
    """
    return {
        name: Annotated[field.annotation, *field.metadata, Field(default=None, description=field.description)]
        for name, field in model.model_fields.items()
    }
