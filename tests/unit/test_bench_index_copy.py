"""Tests of `python -m bench.index_copy`: it measures only complete copies."""

from pathlib import Path
from typing import cast

import pytest

from bench.index_copy import BUCKET, measure, object_store, write_generation
from shared.aws.dynamodb import Table
from shared.search.generations import Generations, LocalCopy


def test_copy_from_the_loopback_store_is_complete(tmp_path: Path) -> None:
    write_generation(tmp_path, "first", {"a": 1000, "b": 2000})
    write_generation(tmp_path, "next", {"a": 1000, "b": 500}, before="first")
    copy = LocalCopy(tmp_path / "copy")
    with object_store(tmp_path) as objects:
        generations = Generations(cast(Table, None), objects, BUCKET)
        for name, sizes in (("first", [1000, 2000]), ("next", [1000, 500])):
            generations.copy_of(name, copy)
            assert copy.generation == name
            assert [(copy.folder / file).stat().st_size for file in ("a", "b")] == sizes


@pytest.mark.slow
def test_report_has_a_row_per_size(tmp_path: Path) -> None:
    assert [row[0] for row in measure((1, 2), rounds=1).rows] == ["1 MB", "2 MB"]
