"""Types of query parameters.

Handlers parse requests with the declarations of parameters, and the OpenAPI document is generated from them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, ClassVar, Generic, Self, TypeVar, overload
from urllib.parse import parse_qsl

from shared.core import regions
from shared.core.errors import BadRequest, InvalidParameter
from shared.core.folders import LONGEST_PATH, folder_path
from shared.core.limits import LAST_SECOND
from shared.core.text import BREAKS, FOLDER, LARGEST_USER_ID, LINE, LONGEST_USER_ID, is_user_id

Schema = dict[str, Any]
"""JSON Schema, or another part of an OpenAPI document."""

MAX_PARAMETERS = 50
"""Maximum number of parameters in a query string."""
_CLOSE = 0.75
"""Minimum similarity, from 0 to 1, between an unknown parameter's name and the name that the error message suggests."""
LONGEST_ZONE = 64
"""Maximum number of characters of a time zone's name."""
LONGEST_CORRELATION_ID = 128
"""Maximum number of characters of a correlation id, which is the id of a request or of an import run."""

USER_ID: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_USER_ID, "pattern": LINE}
FOLDER_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_PATH, "pattern": FOLDER}
USER_ID_MEANS = f"token subject, at most {LARGEST_USER_ID:,} bytes in UTF-8"

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class Parameter(ABC, Generic[_Value]):
    """Declaration of a query parameter, as a descriptor in a subclass of Query.

    The attribute of the class is the declaration. The attribute of an instance is the parsed value.

    >>> class ListExamples(Query):
    ...     limit = Integer("limit", "Maximum number of examples", 1, 100, default=25)
    >>> ListExamples("limit=5").limit, ListExamples("").limit
    (5, 25)
    """

    is_required: bool = False
    repeats: ClassVar[bool] = False
    """Whether clients may repeat the parameter. If so, `parse` receives all values, joined with commas."""

    def __init__(self, name: str, description: str, default: _Value) -> None:
        self.name = name
        self.description = description
        self.default = default
        """Value if the parameter is omitted."""

    @abstractmethod
    def parse(self, text: str) -> _Value:
        """Return the parsed value of a parameter. `text` is the value in the query string. Raises InvalidParameter."""

    @abstractmethod
    def schema(self) -> Schema:
        """Return the JSON Schema of the parameter, for the OpenAPI document."""

    def document(self) -> Schema:
        """Return the parameter object of the OpenAPI document."""
        required = {"required": True} if self.is_required else {}
        return {"name": self.name, "in": "query", **required, "description": self.description, "schema": self.schema()}

    @overload
    def __get__(self, query: None, owner: type["Query"]) -> Self: ...
    @overload
    def __get__(self, query: "Query", owner: type["Query"]) -> _Value: ...
    def __get__(self, query: "Query | None", owner: type["Query"]) -> Self | _Value:
        if query is None:
            return self
        value: _Value = query.values[self.name]
        return value


class Text(Parameter[str | None]):
    """Text parameter of at most `longest` characters, without control characters."""

    def __init__(self, name: str, description: str, longest: int) -> None:
        super().__init__(name, description, None)
        self.longest = longest

    def parse(self, text: str) -> str:
        if len(text) > self.longest or re.search(f"[{BREAKS}]", text):
            raise InvalidParameter.named(
                self.name, f"must have at most {self.longest} characters and no control characters"
            )
        return text

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": self.longest, "pattern": f"^[^{BREAKS}]*$"}


class Choice(Parameter[_Value]):
    """Parameter with a fixed set of allowed words. `meanings` maps each word to the parsed value."""

    def __init__(self, name: str, description: str, meanings: Mapping[str, _Value], default: _Value) -> None:
        super().__init__(name, description, default)
        self.meanings = meanings

    def parse(self, text: str) -> _Value:
        if text not in self.meanings:
            raise InvalidParameter.named(
                self.name, f"must be one of {', '.join(self.meanings)}, not {quote_value(text)}"
            )
        return self.meanings[text]

    def schema(self) -> Schema:
        default = [word for word, meaning in self.meanings.items() if meaning == self.default]
        return {"type": "string", "enum": list(self.meanings), **({"default": default[0]} if default else {})}


class Flag(Parameter[bool]):
    """Boolean parameter, `true` or `false`. It is false if omitted."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description, False)

    def parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise InvalidParameter.named(self.name, f"must be true or false, not {quote_value(text)}")
        return text == "true"

    def schema(self) -> Schema:
        return {"type": "boolean", "default": False}


class Query:
    """Parsed query string of a request. A subclass declares the parameters of an operation, and an instance has their
    values.

    `Query` itself declares `explain`, which all operations that need a token accept.
    """

    explain = Flag(
        "explain",
        "`true` returns the cost of each DynamoDB request in the header Server-Timing, for admins, and for owners "
        "reading only their own items",
    )
    parameters: ClassVar[tuple[Parameter[Any], ...]] = (explain,)
    _by_operation: ClassVar[dict[str, type["Query"]]] = {}

    def __init_subclass__(cls) -> None:
        cls._by_operation[cls.__name__[0].lower() + cls.__name__[1:]] = cls
        own = [value for value in vars(cls).values() if isinstance(value, Parameter)]
        cls.parameters = (*own, *(inherited for inherited in cls.parameters if inherited not in own))

    def __init__(self, text: str) -> None:
        """Parse a percent-encoded query string.

        Raises InvalidParameter, or another BadRequest error if a subclass overrides `unknown`. The error lists all
        invalid parameters.
        """
        faults: dict[str, BadRequest] = {}
        sent = self._sent(text, faults)
        values = {parameter.name: parameter.default for parameter in self.parameters}
        for parameter in self.parameters:
            name = parameter.name
            if name in sent and name not in faults:
                try:
                    values[name] = parameter.parse(sent[name])
                except InvalidParameter as error:
                    faults[name] = error
            elif name not in sent and parameter.is_required:
                faults[name] = InvalidParameter.named(name, "is required")
        if faults:
            raise _combine_faults(list(faults.values()))
        self.values: Mapping[str, Any] = values

    @classmethod
    def of(cls, operation: str) -> type["Query"]:
        """Return the subclass for an operation, such as ListVideos for `listVideos`. `Query` if the operation has no
        subclass.

        The module of the subclass must have been imported before.
        """
        return cls._by_operation.get(operation, Query)

    @classmethod
    def unknown(cls, name: str) -> BadRequest:
        """Return the error for a parameter that the operation does not declare.

        The message suggests a similar parameter or, if there is none, lists all parameters.
        """
        nearest = cls.nearest(name)
        if nearest:
            return InvalidParameter.named(name, f"is unknown. Did you mean {nearest}?")
        declared = ", ".join(parameter.name for parameter in cls.parameters)
        return InvalidParameter.named(name, f"is unknown. Use {declared}")

    @classmethod
    def nearest(cls, name: str) -> str | None:
        """Return the name of a declared parameter that is most similar to `name`.

        `None` if no name is similar enough.
        """
        from difflib import get_close_matches  # imported here, because only invalid requests need it

        names = {parameter.name.lower(): parameter.name for parameter in cls.parameters}
        close = get_close_matches(name.lower(), names, n=1, cutoff=_CLOSE)
        return names[close[0]] if close else None

    def _sent(self, text: str, faults: dict[str, BadRequest]) -> dict[str, str]:
        """Return the parameters in a query string as texts, by name. Adds an error to `faults` for each duplicate,
        empty or unknown parameter."""
        if text.count("&") >= MAX_PARAMETERS:
            raise InvalidParameter(f"The query string must have at most {MAX_PARAMETERS} parameters.")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as error:
            raise InvalidParameter("The query string is not UTF-8. Percent-encode each parameter.") from error
        declared = {parameter.name: parameter for parameter in self.parameters}
        sent: dict[str, str] = {}
        for name, value in pairs:
            if name not in declared:
                faults.setdefault(name, self.unknown(quote_value(name)))
                continue
            if name in sent and not declared[name].repeats:
                faults[name] = InvalidParameter.named(name, "must not be repeated")
            elif not value:
                faults[name] = InvalidParameter.named(name, "must not be empty")
            sent[name] = f"{sent[name]},{value}" if name in sent else value
        return sent


def _combine_faults(faults: Sequence[BadRequest]) -> BadRequest:
    """Return one error that lists all invalid parameters of a query."""
    if len(faults) == 1:
        return faults[0]
    kinds = {type(fault) for fault in faults}
    kind = kinds.pop() if len(kinds) == 1 else InvalidParameter
    errors = [error for fault in faults for error in fault.errors]
    names = ", ".join(error["parameter"] for error in errors)
    return kind(f"{len(faults)} parameters are invalid: {names}.", errors=errors)


class Order(Choice[bool]):
    """Parameter `order` of a list: `asc` or `desc` (default). The parsed value is true for `asc`."""

    def __init__(self, description: str) -> None:
        super().__init__("order", description, {"desc": False, "asc": True}, default=False)


class Integer(Parameter[int | _Default]):
    """Parameter with an integer in ASCII digits, from `low` to `high` (both included)."""

    def __init__(
        self, name: str, description: str, low: int, high: int, default: _Default, *, required: bool = False
    ) -> None:
        super().__init__(name, description, default)
        self.low = low
        self.high = high
        self.is_required = required

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,16}", text) or not self.low <= int(text) <= self.high:
            raise InvalidParameter.named(
                self.name, f"must be a whole number from {self.low} to {self.high}, not {quote_value(text)}"
            )
        return int(text)

    def schema(self) -> Schema:
        default = {} if self.default is None or self.is_required else {"default": self.default}
        return {"type": "integer", "minimum": self.low, "maximum": self.high, **default}


class Time(Parameter[int | None]):
    """Parameter with a time: epoch seconds, or RFC 3339 with an offset.

    The parsed value is in whole epoch seconds. A fraction is rounded up if `up` is true, otherwise down.
    """

    def __init__(self, name: str, description: str, last: int = LAST_SECOND, *, up: bool = True) -> None:
        super().__init__(name, description, None)
        self.last = last
        self.up = up

    def parse(self, text: str) -> int:
        seconds = int(text) if re.fullmatch(r"[0-9]{1,12}", text) else rfc3339(self.name, text, up=self.up)
        if not 0 <= seconds <= self.last:
            raise InvalidParameter.named(self.name, "must be between the years 1970 and 9999")
        return seconds

    def schema(self) -> Schema:
        number = {"type": "integer", "minimum": 0, "maximum": self.last}
        return {"anyOf": [number, {"type": "string", "format": "date-time"}]}


class Day(Parameter[date | None]):
    """Parameter with a day: `YYYY-MM-DD`."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description, None)

    def parse(self, text: str) -> date:
        try:
            if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
                return date.fromisoformat(text)
        except ValueError:
            pass
        raise InvalidParameter.named(self.name, f"must be a day such as 2026-01-31, not {quote_value(text)}")

    def schema(self) -> Schema:
        return {"type": "string", "format": "date"}


class Region(Parameter[str | None]):
    """Parameter `region`: a region code from shared/core/regions.py, in upper or lower case. The parsed value is in upper
    case."""

    def __init__(self, description: str) -> None:
        super().__init__("region", description, None)

    def parse(self, text: str) -> str:
        return region_of(self.name, text)

    def schema(self) -> Schema:
        return {"$ref": "#/components/schemas/Region"}


class UserId(Parameter[str | None]):
    """Parameter `userId`: the subject of a user's token."""

    def __init__(self, description: str) -> None:
        super().__init__("userId", f"{description} ({USER_ID_MEANS})", None)

    def parse(self, text: str) -> str:
        return user_id_of(self.name, text)

    def schema(self) -> Schema:
        return USER_ID


class Folder(Parameter[str | None]):
    """Parameter `folder`: the path of a folder. The parsed value is the path in its stored form."""

    def __init__(self, description: str) -> None:
        super().__init__("folder", description, None)

    def parse(self, text: str) -> str:
        return folder_of(self.name, text)

    def schema(self) -> Schema:
        return FOLDER_SCHEMA


class TimeZone(Parameter[str]):
    """Parameter with a time zone: a name in the IANA database, such as `Europe/Berlin`. `UTC` if omitted."""

    pattern = "^[A-Za-z0-9+_-]+(/[A-Za-z0-9+_-]+)*$"

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description, "UTC")

    def parse(self, text: str) -> str:
        if text != self.default and not (len(text) <= LONGEST_ZONE and re.match(self.pattern, text) and _is_zone(text)):
            raise InvalidParameter.named(
                self.name, f"must be an IANA time zone such as Europe/Berlin, or UTC, not {quote_value(text)}"
            )
        return text

    def schema(self) -> Schema:
        return {"type": "string", "pattern": self.pattern, "maxLength": LONGEST_ZONE, "default": self.default}


class Names(Parameter[tuple[str, ...]]):
    """Parameter with a list of names from `allowed`, separated by commas or in repeated parameters. Duplicates are
    removed."""

    repeats = True

    def __init__(self, name: str, description: str, allowed: Sequence[str]) -> None:
        super().__init__(name, description, ())
        self.allowed = allowed

    def parse(self, text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(text.split(",")))
        unknown = [name for name in names if name not in self.allowed]
        if unknown:
            raise InvalidParameter.named(
                self.name,
                f"must be one or more of {', '.join(self.allowed)}, not {quote_value(unknown[0])}",
            )
        return names

    def schema(self) -> Schema:
        # Without `explode`, generated clients repeat the parameter for each name.
        return {"type": "array", "items": {"type": "string", "enum": list(self.allowed)}, "minItems": 1}


def period(start: int | None, end: int | None) -> tuple[int, int]:
    """Return the range from `start` (included) to `end` (excluded) in epoch seconds. `None` means no bound.

    Raises InvalidParameter if the range is empty.
    """
    first, last = start or 0, LAST_SECOND + 1 if end is None else end
    if first >= last:
        raise InvalidParameter.named("from", "must be before `to`, which is exclusive")
    return first, last


def uuid_of(name: str, text: str) -> str:
    """Return a UUID in lower case. Raises InvalidParameter for the parameter `name` if `text` is not a UUID."""
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text):
        raise InvalidParameter.named(
            name, f"must be a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301, not {quote_value(text)}"
        )
    return text.lower()


def correlation_id_of(name: str, text: str) -> str:
    """Return a correlation id unchanged. Raises InvalidParameter for the parameter `name` if `text` is not a valid
    id."""
    if not re.fullmatch(f"[!-~]{{1,{LONGEST_CORRELATION_ID}}}", text):
        raise InvalidParameter.named(
            name, f"must have 1 to {LONGEST_CORRELATION_ID} printable ASCII characters and no spaces"
        )
    return text


def user_id_of(name: str, text: str) -> str:
    """Return a userId unchanged. Raises InvalidParameter for the parameter `name` if `text` is not a valid userId."""
    if not is_user_id(text):
        raise InvalidParameter.named(
            name, f"must be one line of at most {LONGEST_USER_ID} characters and {LARGEST_USER_ID:,} bytes in UTF-8"
        )
    return text


def folder_of(name: str, text: str) -> str:
    """Return the path of a folder in its stored form.

    Raises InvalidParameter for the parameter `name` if `text` is not a path.
    """
    try:
        return folder_path(text)
    except ValueError as error:
        raise InvalidParameter.named(name, str(error)) from error


def region_of(name: str, text: str) -> str:
    """Return the code of a region in upper case.

    Raises InvalidParameter if the code is unknown (shared/core/regions.py).
    """
    region = regions.region(text)
    if region is None:
        raise InvalidParameter.named(
            name, f"must be a country of ISO 3166 such as NZ, or a code such as XWW, not {quote_value(text)}"
        )
    return region


LANGUAGE = r"(?=.{1,35}$)[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*"


def language_of(name: str, text: str) -> str:
    """Return a language tag (BCP 47) in conventional case. Raises InvalidParameter if `text` is not a language tag."""
    if not re.fullmatch(LANGUAGE, text):
        raise InvalidParameter.named(name, f"must be a BCP 47 tag such as en-NZ, not {quote_value(text)}")
    return regions.language(text)


def _is_zone(name: str) -> bool:
    # Imported here, because most requests need no time zones.
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # an unknown name, a folder, or a file that is not a time zone
        return False
    return True


def quote_value(text: str) -> str:
    """Return the first 40 characters of a text that a client sent, for an error message. Unprintable characters become
    `?`."""
    return "".join(character if character.isprintable() else "?" for character in text[:40]) or "''"


def rfc3339(name: str, value: str, *, up: bool) -> int:
    """Return an RFC 3339 time in whole epoch seconds. A fraction is rounded up if `up` is true, otherwise down.

    Raises InvalidParameter for the parameter `name` if `value` is not an RFC 3339 time.
    """
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value, re.ASCII):
        # datetime reads at most six digits of a fraction.
        fraction = re.search(r"\.(\d+)", value)
        try:
            moment = datetime.fromisoformat(re.sub(r"\.\d+", "", value.upper()))
            return int(moment.timestamp()) + (1 if up and fraction and int(fraction[1]) else 0)
        except (ValueError, OverflowError):
            pass
    raise InvalidParameter.named(
        name, "must be epoch seconds or an RFC 3339 time such as 2026-01-31T12:00:00Z (write + as %2B)"
    )
