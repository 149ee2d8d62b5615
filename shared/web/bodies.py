"""Bodies of requests: JSON as a model, or the problem that names each field at fault."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from shared.web.prebuilt_model import parsed, validated


class Content(BaseModel):
    """An object in a body. A field that is not one of the model's is an error."""

    # Each model is built for the first body that needs it: a request needs one of a module's models, and building takes longest.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    refusals: ClassVar[Mapping[str, str]] = {}
    """What to say of fields that clients may expect here, and that are not the model's."""

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """A body as this model; raises MalformedJson, or InvalidContent with a pointer for each field at fault."""
        return parsed(cls.model_validate_json, body, cls.refusals)

    @classmethod
    def read(cls, content: Any) -> Self:
        """A part of a body that was read as JSON already; raises InvalidContent with pointers into that part."""
        return validated(cls.model_validate, content, cls.refusals)


class NoContent(Content):
    """The body of a POST that needs none: empty, or `{}`."""


def merging(model: type[Content]) -> dict[str, Any]:
    """Return the annotations of a JSON Merge Patch (RFC 7396) of what a model describes: every field may be left out.

    Null removes what the model may be without. Read patches with `model_dump(exclude_unset=True)`: the defaults mean nothing.
    """
    return {
        name: Annotated[field.annotation, *field.metadata, Field(default=None, description=field.description)]
        for name, field in model.model_fields.items()
    }
