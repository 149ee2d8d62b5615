"""Models of request bodies with generated core schemas, so that a request loads pydantic_core but not pydantic.

Importing pydantic and building a model would take a third of the time of a POST after a cold start. `python -m
local.readme` generates the classes in each `prebuilt.py` from the models in the `models.py` of the same folder.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self, TypeVar

from pydantic_core import ErrorDetails, SchemaSerializer, SchemaValidator, ValidationError

from shared.core.errors import InvalidContent, MalformedJson, invalid_fields, pointer

MAX_ERRORS = 50
"""Maximum number of errors in a response. A body can cause a hundred thousand errors, and Lambda limits responses to 6
MB."""

_Parsed = TypeVar("_Parsed")


class PrebuiltModel:
    """Base class of generated models. It has the same methods as `shared.web.bodies.Content`.

    Each field of a body is an attribute.
    """

    # pydantic_core sets these attributes on each instance.
    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

    @classmethod
    def core_schema(cls) -> Any:
        """Return the core schema of the model: https://docs.pydantic.dev/latest/api/pydantic_core_schema/"""
        raise NotImplementedError

    @classmethod
    @cache
    def _built(cls) -> tuple[SchemaValidator, SchemaSerializer]:
        schema = cls.core_schema()
        return SchemaValidator(schema), SchemaSerializer(schema)

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse a JSON body. Raises the errors of `Content.parse`."""
        validator, _ = cls._built()
        model: Self = parsed(validator.validate_json, body)
        return model

    @classmethod
    def read(cls, content: Any) -> Self:
        """Validate a part of a body that is already parsed. Raises the errors of `Content.read`."""
        validator, _ = cls._built()
        model: Self = validated(validator.validate_python, content)
        return model

    def model_dump(self, *, exclude_none: bool = False, exclude_unset: bool = False) -> dict[str, Any]:
        """Return the fields as a dictionary, as pydantic's method of the same name does."""
        _, serializer = self._built()
        dumped: dict[str, Any] = serializer.to_python(self, exclude_none=exclude_none, exclude_unset=exclude_unset)
        return dumped


def parsed(validate: Callable[[bytes], _Parsed], body: bytes, refusals: Mapping[str, str] = {}) -> _Parsed:
    """Return the model that `validate` parses from a JSON body.

    `refusals` has error messages for certain unknown fields, by name. Raises MalformedJson, or InvalidContent with a
    JSON Pointer to each invalid field.
    """
    if not body.strip():
        raise MalformedJson("The body is empty; send a JSON object.")
    return validated(validate, body, refusals)


def validated(validate: Callable[[Any], _Parsed], content: Any, refusals: Mapping[str, str] = {}) -> _Parsed:
    """Return the model that `validate` creates from `content`. Raises MalformedJson or InvalidContent for errors of
    pydantic."""
    try:
        return validate(content)
    except ValidationError as error:
        raise _problem(error, refusals) from error


def _problem(error: ValidationError, refusals: Mapping[str, str]) -> MalformedJson | InvalidContent:
    from shared.web.error_messages import malformed  # needed only for invalid bodies

    faults = error.errors(include_url=False)
    if faults[0]["type"] == "json_invalid":
        return MalformedJson(malformed(faults[0]))
    errors = [
        {"pointer": pointer(fault["loc"]), "detail": _explained(fault, refusals)} for fault in faults[:MAX_ERRORS]
    ]
    return invalid_fields(errors, len(faults))


def _explained(error: ErrorDetails, refusals: Mapping[str, str]) -> str:
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1 and str(error["loc"][0]) in refusals:
        return refusals[str(error["loc"][0])]
    from shared.web.error_messages import detail

    return detail(error)
