"""Bodies of requests: JSON as a model, or the problem that names each field at fault."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from shared.core.errors import InvalidContent, MalformedJson, invalid_fields, pointer

MOST_ERRORS = 50
"""How many faults an answer names: a body can hold a hundred thousand, and Lambda answers with 6 MB at most."""


class Content(BaseModel):
    """An object in a body. A field that is not one of the model's is an error."""

    # Each model is built for the first body that needs it: a request needs one of a module's models, and building takes longest.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    refusals: ClassVar[Mapping[str, str]] = {}
    """What to say of fields that clients may expect here, and that are not the model's."""

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """A body as this model; raises MalformedJson, or InvalidContent with a pointer for each field at fault."""
        if not body.strip():
            raise MalformedJson("The body is empty; send a JSON object.")
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise _problem(error, cls.refusals) from error

    @classmethod
    def read(cls, content: Any) -> Self:
        """A part of a body that was read as JSON already; raises InvalidContent with pointers into that part."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise _problem(error, cls.refusals) from error


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


def _problem(error: ValidationError, refusals: Mapping[str, str]) -> MalformedJson | InvalidContent:
    from shared.web.messages import malformed  # which only bodies that are refused need

    faults = error.errors(include_url=False)
    if faults[0]["type"] == "json_invalid":
        return MalformedJson(malformed(faults[0]))
    errors = [
        {"pointer": pointer(fault["loc"]), "detail": _explained(fault, refusals)} for fault in faults[:MOST_ERRORS]
    ]
    return invalid_fields(errors, len(faults))


def _explained(error: ErrorDetails, refusals: Mapping[str, str]) -> str:
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1 and str(error["loc"][0]) in refusals:
        return refusals[str(error["loc"][0])]
    from shared.web.messages import detail

    return detail(error)
