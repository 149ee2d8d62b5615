"""Settings of the functions: read from the environment and checked once, when a function starts."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

LambdaHandler: TypeAlias = Callable[[dict[str, Any], "LambdaContext"], dict[str, Any]]

VARIABLES = "variables"
"""Key in a field's metadata: the variables of a mapping that is read from several, by their keys in the mapping."""


class InvalidSettings(Exception):
    """Variables of the environment are missing or invalid. The message names each of them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of every function; a function that needs more has a class of its own.

    Each field is read from the environment variable of the same name in capitals. A field with a default is optional:

        @dataclass(frozen=True, kw_only=True)
        class UploadsSettings(Settings):
            jobs_per_day: int
    """

    environment: str
    """Name of the environment, such as `dev`: a dimension of every metric."""
    table_name: str
    answer_seconds: float = 5.0
    """Deadline of a GET."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read and check all fields; raises InvalidSettings."""
        values: dict[str, Any] = {}
        faults: list[str] = []
        for field in fields(cls):
            if parts := field.metadata.get(VARIABLES):
                faults += [f"{name} is missing" for name in parts.values() if not environment.get(name)]
                values[field.name] = {key: environment.get(name, "") for key, name in parts.items()}
                continue
            name = field.name.upper()
            if text := environment.get(name):
                try:
                    values[field.name] = _PARSERS[field.type](text)
                except ValueError as error:
                    faults.append(f"{name} is {text!r}: {error}")
            elif field.default is MISSING:
                faults.append(f"{name} is missing")
        if faults:
            raise InvalidSettings(f"The environment variables of this function are not valid. {'; '.join(faults)}.")
        return cls(**values)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> Mapping[str, int]:
    """Numbers by name, from `probe=4,thumbnails=4`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: int(number) for name, _, number in pairs}


_PARSERS: Mapping[Any, Callable[[str], Any]] = {
    str: str,
    str | None: str,
    int: int,
    float: float,
    bool: _boolean,
    tuple[str, ...]: _names,
    Mapping[str, int]: _numbers,
}
"""Parsers by the type of a field. Each raises ValueError."""
