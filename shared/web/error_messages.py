"""Error messages for invalid bodies: one message for each type of pydantic error."""

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from pydantic_core import ErrorDetails

from shared.core.checks import FORMS
from shared.core.limits import LARGEST_INTEGER
from shared.web.parameters import quote_value

UNKNOWN_FIELD = "is unknown or read-only"

_KINDS: Mapping[type, str] = {str: "text", list: "a list", dict: "an object"}


def _value(value: Any) -> str:
    """Return the text that represents a value in an error message: the value itself for scalars, otherwise its JSON
    type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN or infinity"
    if isinstance(value, int | float):
        return f"{value:.15g}" if abs(value) <= LARGEST_INTEGER else "a larger number"
    return _KINDS.get(type(value), "an unsupported value")


def _number(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:.15g}"


def _counted(limit: int, noun: str) -> str:
    return f"{limit:,} {noun}" if limit == 1 else f"{limit:,} {noun}s"


def _at_least(limit: int, actual: int, noun: str) -> str:
    return "must not be empty" if actual == 0 else f"must have at least {_counted(limit, noun)}, not {actual:,}"


def _literal(error: ErrorDetails) -> str:
    words = re.sub("'([^']*)'", r"\1", error["ctx"]["expected"])
    value = error["input"]
    return f"must be {words}, not {quote_value(value) if isinstance(value, str) else _value(value)}"


_MESSAGES: Mapping[str, str | Callable[[ErrorDetails], str]] = {
    "bool_type": lambda error: f"must be true or false, not {_value(error['input'])}",
    "dict_type": lambda error: f"must be an object, not {_value(error['input'])}",
    "extra_forbidden": UNKNOWN_FIELD,
    "finite_number": "must be a finite number",
    "float_type": lambda error: f"must be a number, not {_value(error['input'])}",
    "greater_than_equal": lambda error: f"must be at least {_number(error['ctx']['ge'])}, not {_value(error['input'])}",
    "int_from_float": lambda error: f"must be a whole number, not {_value(error['input'])}",
    "int_parsing": "must be a whole number",
    "int_parsing_size": f"must be at most {LARGEST_INTEGER}",
    "int_type": lambda error: f"must be a whole number, not {_value(error['input'])}",
    "invalid_key": "must have only text as keys",
    "less_than_equal": lambda error: f"must be at most {_number(error['ctx']['le'])}, not {_value(error['input'])}",
    "list_type": lambda error: f"must be a list, not {_value(error['input'])}",
    "literal_error": _literal,
    "missing": "is required",
    "model_type": lambda error: f"must be an object, not {_value(error['input'])}",
    "recursion_loop": "must not contain itself",
    "string_pattern_mismatch": lambda error: FORMS.get(
        error["ctx"]["pattern"], f"must match {error['ctx']['pattern']}"
    ),
    "string_too_long": lambda error: (
        f"must have at most {_counted(error['ctx']['max_length'], 'character')}, not {len(error['input']):,}"
    ),
    "string_too_short": lambda error: _at_least(error["ctx"]["min_length"], len(error["input"]), "character"),
    "string_type": lambda error: f"must be text, not {_value(error['input'])}",
    "string_unicode": "must be text in Unicode without lone surrogates",
    "too_long": lambda error: (
        f"must have at most {_counted(error['ctx']['max_length'], 'element')}, not {len(error['input']):,}"
    ),
    "too_short": lambda error: _at_least(error["ctx"]["min_length"], error["ctx"]["actual_length"], "element"),
    "value_error": lambda error: str(error["ctx"]["error"]),
}
TYPES = frozenset(_MESSAGES)
"""Types of pydantic errors for which a message exists."""

_SYNTAX = (
    ("EOF while parsing", "it ends too early"),
    ("control character", "a string contains a control character, which must be escaped"),
    ("expected `:`", "a colon is missing after a name"),
    ("expected `,` or `]`", "a comma or the end of a list is missing"),
    ("expected `,` or `}`", "a comma or the end of an object is missing"),
    ("invalid escape", "a string contains an unknown escape"),
    ("invalid number", "a number is malformed"),
    ("number out of range", "a number is too large"),
    ("invalid unicode code point", "a string is not UTF-8"),
    ("key must be a string", "a name must be in double quotes"),
    ("lone leading surrogate", "an escape is a lone surrogate"),
    ("unexpected end of hex escape", "an escape is a lone surrogate"),
    ("recursion limit exceeded", "it is nested too deeply"),
    ("trailing comma", "a comma has nothing after it"),
    ("trailing characters", "it continues after its end"),
)
"""Beginnings of the JSON parser's error messages, each with the text that replaces the message."""


def detail(error: ErrorDetails) -> str:
    """Return the service's error message for a validation error that pydantic reported."""
    message = _MESSAGES.get(error["type"], "is not valid")
    return message if isinstance(message, str) else message(error)


def malformed(error: ErrorDetails) -> str:
    """Return the error message for a body that is not JSON, with line and column if the parser reports them."""
    reason = str(error.get("ctx", {}).get("error", ""))
    fault = next((meaning for start, meaning in _SYNTAX if reason.startswith(start)), "a value is missing or malformed")
    position = re.search(r"at (line \d+ column \d+)", reason)
    return f"The body is not JSON: {fault}{f' ({position[1]})' if position else ''}."
