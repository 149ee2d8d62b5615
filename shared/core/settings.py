"""Settings of the Lambda functions. A function reads and validates its environment variables once, when it starts."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias, dataclass_transform

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

LambdaHandler: TypeAlias = Callable[[dict[str, Any], "LambdaContext"], dict[str, Any]]
"""Function that Lambda calls with an event and a context. It returns the response."""


class InvalidSettings(Exception):
    """Environment variables are missing or invalid. The message names all of them."""


class VariableGroup(dict[str, str]):
    """Marker of a settings field that is a mapping. Maps each key of the field to the environment variable that has the
    key's value."""


def variable_group(variables: Mapping[str, str]) -> Any:
    """Declare a settings field that is a mapping. `variables` maps each key of the field to the name of the environment
    variable that has the key's value."""
    return VariableGroup(variables)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(variable_group,))
class Settings:
    """Immutable settings that every function has. Functions with more settings define subclasses.

    Each field is read from the environment variable of the same name in upper case. A field with a default is optional.

    >>> class UploadsSettings(Settings):
    ...     jobs_per_day: int
    >>> UploadsSettings.read({"ENVIRONMENT": "dev", "TABLE_NAME": "VideoMetadata", "JOBS_PER_DAY": "100"}).jobs_per_day
    100

    Type checkers treat the class as a dataclass. It does not use @dataclass, because that would add 4 million
    instructions per class to a cold start.
    """

    environment: str
    """Name of the environment, such as `dev`. Every metric has it as a dimension."""
    table_name: str
    answer_seconds: float = 5.0
    """Seconds until the deadline of a GET request."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} is read only.")

    @classmethod
    def variables(cls) -> dict[str, bool]:
        """Return the names of the environment variables, and whether each is required."""
        names: dict[str, bool] = {}
        for name in cls._types():
            default = getattr(cls, name, None)
            if isinstance(default, VariableGroup):
                names |= dict.fromkeys(default.values(), True)
            else:
                names[name.upper()] = not hasattr(cls, name)
        return names

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return the settings from environment variables. Raises InvalidSettings, whose message lists all faults."""
        faults = [
            f"{name} is missing" for name, required in cls.variables().items() if required and not environment.get(name)
        ]
        values: dict[str, Any] = {}
        for name, kind in cls._types().items():
            default, text = getattr(cls, name, None), environment.get(name.upper())
            if isinstance(default, VariableGroup):
                values[name] = {key: environment.get(variable) for key, variable in default.items()}
            elif text:
                try:
                    values[name] = _PARSERS[kind](text)
                except ValueError as error:
                    faults.append(f"{name.upper()} is {text!r}: {error}")
        if faults:
            raise InvalidSettings(f"The environment variables of this function are not valid. {'; '.join(faults)}.")
        return cls(**values)

    @classmethod
    def _types(cls) -> dict[str, Any]:
        """Return the types of all fields by name, inherited fields first."""
        return {
            name: kind for base in reversed(cls.__mro__) for name, kind in getattr(base, "__annotations__", {}).items()
        }


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> Mapping[str, int]:
    """Parse a list of names with numbers, such as `probe=4,thumbnails=4`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: int(number) for name, _, number in pairs}


def _texts(text: str) -> Mapping[str, str]:
    """Parse a list of names with values, such as `probe=https://...,purge=https://...`."""
    return {name: value for name, _, value in (pair.partition("=") for pair in text.split(","))}


_PARSERS: Mapping[Any, Callable[[str], Any]] = {
    str: str,
    str | None: str,
    int: int,
    float: float,
    bool: _boolean,
    tuple[str, ...]: _names,
    Mapping[str, int]: _numbers,
    Mapping[str, str]: _texts,
}
"""Parsers of environment variables, by type of the field. Each raises ValueError for invalid text."""
