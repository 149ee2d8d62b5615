"""Differences between two items: JSON pointers, truncation to a size, and reverts."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.changes import (
    LONGEST_WHEN_CUT,
    TruncatedValue,
    changes_between,
    covers,
    escape_pointer,
    json_of,
    overlap,
    revert_change,
    split_pointer,
    to_json_value,
    truncate_to_fit,
    truncated_fields,
)

NAMES = st.text(alphabet="ab/~.#", min_size=1, max_size=3)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(string.ascii_letters, max_size=3)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
ITEMS = st.dictionaries(NAMES, VALUES, max_size=4)


class TestReverting:
    @pytest.mark.slow
    @given(ITEMS, ITEMS)
    def test_reverting_all_changes_restores_the_former_item(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        state = new
        for change in reversed(list(changes_between(old, new))):
            state = revert_change(state, change)
        assert to_json_value(state) == to_json_value(old)
        assert list(changes_between(state, old)) == []

    @pytest.mark.slow
    @given(ITEMS)
    def test_item_has_no_changes_from_itself(self, item: dict[str, Any]) -> None:
        assert list(changes_between(item, item)) == []

    def test_reverting_changes_does_not_modify_its_input(self) -> None:
        new = {"map": {"a": 1}}
        assert revert_change(new, {"field": "/map/a", "from": 2, "to": 1}) == {"map": {"a": 2}}
        assert new == {"map": {"a": 1}}

    def test_truncated_value_and_its_members_are_marked_as_unknown(self) -> None:
        state = revert_change({"map": "text"}, {"field": "/map", "from": "{", "fromBytes": 5000, "to": "text"})
        state = revert_change(state, {"field": "/map/a", "from": 1, "to": 2})
        assert isinstance(state["map"], TruncatedValue)
        assert list(truncated_fields(state)) == ["/map"]

    def test_empty_map_of_a_required_field_is_no_change(self) -> None:
        assert list(changes_between({}, {"metadata": {}}, always=("metadata",))) == []
        assert list(changes_between({"metadata": {}}, {}, always=("metadata",))) == []
        assert list(changes_between({}, {"metadata": {}})) == [{"field": "/metadata", "to": {}}]


class TestPointers:
    @given(st.lists(NAMES, max_size=4))
    def test_split_pointer_has_the_parts_from_which_it_was_built(self, parts: list[str]) -> None:
        assert split_pointer("".join(f"/{escape_pointer(part)}" for part in parts)) == parts

    @pytest.mark.parametrize(
        ("field", "other", "is_covered"),
        [("", "/a", True), ("/a", "/a", True), ("/a", "/a/b", True), ("/a/b", "/a", False), ("/a", "/ab", False)],
    )
    def test_pointer_covers_itself_and_its_descendants(self, field: str, other: str, is_covered: bool) -> None:
        assert covers(field, other) == is_covered
        assert overlap(field, other) == overlap(other, field) == (is_covered or covers(other, field))


class TestTruncation:
    @given(
        st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), min_size=1, max_size=8),
        st.integers(6000, 30_000),
    )
    def test_truncated_entry_fits_the_limit_and_counts_omitted_changes(
        self, lengths: list[tuple[int, int]], largest: int
    ) -> None:
        changes = [
            {"field": f"/{number}", "from": "f" * before, "to": "t" * after}
            for number, (before, after) in enumerate(lengths)
        ]
        item: dict[str, Any] = {"pk": "VIDEO#1", "changes": changes}
        truncated = truncate_to_fit(item, largest)
        assert len(json_of(truncated)) <= largest
        assert len(truncated["changes"]) + truncated.get("omitted", 0) == len(changes)
        for change, original in zip(truncated["changes"], changes, strict=False):
            for side in ("from", "to"):
                is_cut = f"{side}Bytes" in change
                assert change[side] == (original[side][:LONGEST_WHEN_CUT] if is_cut else original[side])
        assert item["changes"] == changes

    @pytest.mark.slow
    @pytest.mark.parametrize("count", [9, 10, 11, 99, 100, 101, 1000])
    def test_entry_with_omitted_changes_stays_within_its_limit(self, count: int) -> None:
        changes = [{"field": f"/{number:04}", "to": 0} for number in range(count)]
        full_size = len(json_of({"changes": changes}))
        for largest in range(full_size - 80, full_size + 1):
            truncated = truncate_to_fit({"changes": changes}, largest)
            assert len(json_of(truncated)) <= largest
            assert len(truncated["changes"]) + truncated.get("omitted", 0) == count
