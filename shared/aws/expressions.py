"""Expressions of DynamoDB: conditions and changes, whose names and values are placeholders."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from shared.core.attributes import Value, encode


@dataclass(frozen=True)
class Expression:
    """An expression with placeholders, so that no name is a reserved word and no value is text."""

    text: str
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, /, **values: Value) -> "Expression":
        """An expression whose placeholders are its attributes' own names: `of("#version = :expected", expected=3)`."""
        return cls(text, dict(_names(text)), {f":{name}": value for name, value in values.items()})

    @classmethod
    def all_of(cls, conditions: Iterable["Expression"]) -> "Expression":
        """The condition that all of these hold; a placeholder that stands in several must mean the same in each."""
        parts = list(conditions)
        # DynamoDB refuses parentheses around a whole expression.
        text = parts[0].text if len(parts) == 1 else " AND ".join(f"({part.text})" for part in parts)
        names = {placeholder: name for part in parts for placeholder, name in part.names.items()}
        values = {placeholder: value for part in parts for placeholder, value in part.values.items()}
        return cls(text, names, values)

    def __and__(self, other: "Expression") -> "Expression":
        """The condition that both hold, as `all_of` makes it."""
        return Expression.all_of((self, other))

    def __add__(self, other: "Expression") -> "Expression":
        """The change that makes both; a clause such as SET may stand in one of them only."""
        return Expression(f"{self.text} {other.text}", self.names | other.names, self.values | other.values)


@cache
def _names(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"#{name}", name) for name in re.findall(r"#(\w+)", text))


def change_between(old: Mapping[str, Value], new: Mapping[str, Value]) -> Expression:
    """The update expression that makes `old` into `new`: SET what differs, REMOVE what is gone."""
    names: dict[str, str] = {}
    values: dict[str, Value] = {}
    assignments = []
    for position, (name, value) in enumerate(sorted(new.items())):
        if name not in old or not _same(old[name], value):
            names[f"#s{position}"], values[f":s{position}"] = name, value
            assignments.append(f"#s{position} = :s{position}")
    gone = []
    for position, name in enumerate(sorted(old.keys() - new.keys())):
        names[f"#r{position}"] = name
        gone.append(f"#r{position}")
    text = " ".join(
        part
        for part in (
            "SET " + ", ".join(assignments) if assignments else "",
            "REMOVE " + ", ".join(gone) if gone else "",
        )
        if part
    )
    return Expression(text, names, values)


def _same(one: Value, other: Value) -> bool:
    # True == 1 in Python, but not in DynamoDB, nor for the client who changed one into the other.
    return encode(one) == encode(other)
