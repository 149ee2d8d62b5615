"""DynamoDB condition and update expressions with placeholders for names and values."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from shared.core.attributes import Value, encode


@dataclass(frozen=True)
class Expression:
    """Expression with the names and values of its placeholders. Placeholders allow attribute names that are reserved words.

    >>> unchanged = Expression.of("#version = :read", read=3)
    >>> unchanged & Expression.of("attribute_not_exists(#lock)")
    Expression(text='(#version = :read) AND (attribute_not_exists(#lock))', \
names={'#version': 'version', '#lock': 'lock'}, values={':read': 3})
    >>> (Expression.of("SET #version = :new", new=4) + Expression.of("REMOVE #lock")).text
    'SET #version = :new REMOVE #lock'
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, /, **values: Value) -> "Expression":
        """Return an expression with placeholders such as `#version` for names, and `:read` for values.

        A name placeholder consists of `#` and the attribute's name. `values` has the value of each value placeholder.
        """
        return cls(text, dict(_names(text)), {f":{name}": value for name, value in values.items()})

    @classmethod
    def all_of(cls, conditions: Iterable["Expression"]) -> "Expression":
        """Return a condition that joins these conditions with AND.

        If conditions share a placeholder, it must have the same value in each.
        """
        parts = list(conditions)
        # DynamoDB rejects parentheses around a whole expression.
        text = parts[0].text if len(parts) == 1 else " AND ".join(f"({part.text})" for part in parts)
        names = {placeholder: name for part in parts for placeholder, name in part.names.items()}
        values = {placeholder: value for part in parts for placeholder, value in part.values.items()}
        return cls(text, names, values)

    def __and__(self, other: "Expression") -> "Expression":
        """Return a condition that joins both conditions with AND, as `all_of` does."""
        return Expression.all_of((self, other))

    def __add__(self, other: "Expression") -> "Expression":
        """Return the update that makes both changes. A clause such as SET may occur in only one of the two expressions."""
        return Expression(f"{self.text} {other.text}", self.names | other.names, self.values | other.values)


@cache
def _names(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"#{name}", name) for name in re.findall(r"#(\w+)", text))


def change_between(old: Mapping[str, Value], new: Mapping[str, Value]) -> Expression:
    """Return the update that turns `old` into `new`: SET for new and changed attributes, REMOVE for attributes only in `old`."""
    names: dict[str, str] = {}
    values: dict[str, Value] = {}
    assignments = []
    for position, (name, value) in enumerate(sorted(new.items())):
        if name not in old or not _same(old[name], value):
            names[f"#s{position}"], values[f":s{position}"] = name, value
            assignments.append(f"#s{position} = :s{position}")
    removals = []
    for position, name in enumerate(sorted(old.keys() - new.keys())):
        names[f"#r{position}"] = name
        removals.append(f"#r{position}")
    text = " ".join(
        part
        for part in (
            "SET " + ", ".join(assignments) if assignments else "",
            "REMOVE " + ", ".join(removals) if removals else "",
        )
        if part
    )
    return Expression(text, names, values)


def _same(one: Value, other: Value) -> bool:
    # True == 1 in Python, but not in DynamoDB.
    return encode(one) == encode(other)
