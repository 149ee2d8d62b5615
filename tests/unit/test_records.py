"""Expressions of writes: placeholders are attribute names, and conditions compare the values that the store read."""

import pytest

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.records import (
    ABSENT,
    absent_or_purged,
    at_version,
    is_own_write,
    key_of,
    signing,
    unchanged,
    with_version,
)
from shared.core.attributes import Item
from shared.core.caller import Caller

ALICE = Caller("alice", frozenset(), correlation_id="request-1")
KEY = {"pk": "VIDEO#1", "sk": "META"}


@pytest.fixture
def stored(table: Table) -> Item:
    """Return a stored item at version 1."""
    item = with_version({**KEY, "title": "Harbour"}, ALICE, 1000, version=1)
    table.write(table.put(item, condition=ABSENT))
    return item


def test_an_expression_names_each_attribute_by_its_placeholder() -> None:
    expression = Expression.of("#version = :expected AND attribute_exists(#rel)", expected=3)
    assert expression.names == {"#version": "version", "#rel": "rel"}
    assert expression.values == {":expected": 3}


def test_a_condition_with_or_is_grouped_when_combined(table: Table, stored: Item) -> None:
    either = Expression.of("#title = :one OR #title = :other", one="Harbour", other="Pier")
    table.write(table.put(stored, condition=either & at_version(stored)))
    with pytest.raises(ConditionFailed):
        table.write(table.put(stored, condition=either & Expression.of("#version = :later", later=2)))


def test_several_conditions_are_joined_by_and() -> None:
    one, other, third = (Expression.of(f"#{name} > :now", now=1) for name in ("publishAt", "expiresAt", "purgeAt"))
    expression = Expression.all_of([one, other, third])
    assert expression.text == "(#publishAt > :now) AND (#expiresAt > :now) AND (#purgeAt > :now)"
    assert expression.names == {"#publishAt": "publishAt", "#expiresAt": "expiresAt", "#purgeAt": "purgeAt"}
    assert expression.values == {":now": 1}
    assert Expression.all_of([one]) == one
    assert Expression.all_of([]).text == ""


def test_an_update_sets_audit_fields_without_reading_the_item(table: Table, stored: Item) -> None:
    addition = Expression.of("ADD #votes :one", one=1)
    table.write(table.update(KEY, addition + signing({"title": "Pier"}, Caller("bob", frozenset()), 1001)))
    item = table.get(KEY)
    assert item is not None
    assert (item["votes"], item["title"], item["updatedBy"], item["updatedAt"]) == (1, "Pier", "bob", 1001)
    assert "updatedFor" not in item  # the attribute named the earlier request


def test_two_changes_combine_into_one_update(table: Table, stored: Item) -> None:
    titled, counted = Expression.of("SET #title = :title", title="Pier"), Expression.of("ADD #votes :more", more=2)
    new = table.write(table.update(KEY, titled + counted, condition=at_version(stored)), returning="ALL_NEW")
    assert (new["title"], new["votes"]) == ("Pier", 2)


def test_audit_fields_name_author_time_and_request(stored: Item) -> None:
    assert stored["updatedBy"] == "alice"
    assert stored["updatedAt"] == 1000
    assert stored["updatedFor"] == "request-1"
    assert key_of(stored) == KEY


def test_unchanged_condition_fails_after_another_write(table: Table, stored: Item) -> None:
    rewritten = with_version(stored, ALICE, 1001, version=1)
    table.write(table.update(KEY, change_between(stored, rewritten), condition=unchanged(stored)))
    with pytest.raises(ConditionFailed) as failure:
        table.write(table.put(stored, condition=unchanged(stored)))
    assert is_own_write(failure.value.item, rewritten)
    assert not is_own_write(failure.value.item, stored)


def test_absent_condition_fails_when_an_item_is_stored(table: Table, stored: Item) -> None:
    with pytest.raises(ConditionFailed):
        table.write(table.put(stored, condition=unchanged(None)))
    assert not is_own_write(None, stored)


@pytest.mark.parametrize(("purge_at", "replaced"), [(1999, True), (2000, True), (2001, False), (None, False)])
def test_item_past_its_purge_time_may_be_replaced(table: Table, purge_at: int | None, replaced: bool) -> None:
    table.write(table.put(KEY | ({"purgeAt": purge_at} if purge_at else {}), condition=ABSENT))
    write = table.put(KEY | {"title": "New"}, condition=absent_or_purged(2000))
    if replaced:
        table.write(write)
    else:
        with pytest.raises(ConditionFailed):
            table.write(write)
