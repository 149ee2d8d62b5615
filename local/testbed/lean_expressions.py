"""Conditions and projections of moto without its repeated work; tests/unit/test_lean_moto.py compares them with the original."""

from typing import Any

import pytest
from moto.dynamodb.comparisons import AttributeValue, ConditionExpressionParser
from moto.dynamodb.models.dynamo_type import Item, deserializer


class _TreeParser(ConditionExpressionParser):
    """Parser that returns the syntax tree instead of the condition that is made of it."""

    def _make_op_condition(self, node: Any) -> Any:
        return node


def parse_conditions_once(patch: pytest.MonkeyPatch) -> None:
    """Parse conditions once for the same text, names and types of values, then put in the values: 25 percent."""
    parse, operand_of = ConditionExpressionParser.parse, ConditionExpressionParser._make_operand
    known: dict[Any, tuple[Any, list[str], list[str]]] = {}

    def parse_once(parser: ConditionExpressionParser) -> Any:
        text = parser.condition_expression
        if not text:
            return parse(parser)
        names, values = parser.expression_attribute_names, parser.expression_attribute_values
        kinds = tuple((name, *value) for name, value in (values or {}).items())
        key = (text, tuple((names or {}).items()), kinds)
        if key not in known:
            other = _TreeParser(text, names, values)
            known[key] = parse(other), other.expr_attr_names_found, other.expr_attr_values_found
        tree, names_found, values_found = known[key]
        parser.expr_attr_names_found.extend(names_found)
        parser.expr_attr_values_found.extend(values_found)
        return parser._make_op_condition(tree)

    def make_operand(parser: ConditionExpressionParser, node: Any) -> Any:
        if node.kind == parser.Kind.EXPRESSION_ATTRIBUTE_VALUE:
            return AttributeValue((parser.expression_attribute_values or {})[node.text])
        return operand_of(parser, node)

    patch.setattr(ConditionExpressionParser, "parse", parse_once)
    patch.setattr(ConditionExpressionParser, "_make_operand", make_operand)


def read_items_once(patch: pytest.MonkeyPatch) -> None:
    """Read only the projected attributes, once; moto reads the whole item for each of them: 10 percent."""
    project = Item.project

    def project_once(item: Item, paths: list[list[str]]) -> Item:
        if any(len(path) != 1 or "[" in path[0] for path in paths):
            return project(item, paths)
        attributes = {
            name: deserializer.deserialize(item.attrs[name].to_regular_json())
            for (name,) in paths
            if name in item.attrs
        }
        vars(item)["to_regular_json"] = lambda: attributes
        try:
            return project(item, paths)
        finally:
            del vars(item)["to_regular_json"]

    patch.setattr(Item, "project", project_once)
