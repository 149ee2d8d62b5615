"""Settings of the functions, read from environment variables."""

from collections.abc import Mapping

import pytest

from shared.core.settings import InvalidSettings, Settings, variable_group

COMMON = {"ENVIRONMENT": "test", "TABLE_NAME": "videos"}


class Example(Settings):
    most: int
    is_local: bool = False
    names: tuple[str, ...]
    quotas: Mapping[str, int]
    bus: str | None = None
    urls: Mapping[str, str] = variable_group({"a": "A_URL", "b": "B_URL"})


VALID = COMMON | {"MOST": "3", "NAMES": "240p,720p", "QUOTAS": "probe=4,purge=1", "A_URL": "1", "B_URL": "2"}


def test_settings_have_the_values_of_their_variables() -> None:
    settings = Example.read(VALID | {"IS_LOCAL": "true", "BUS": "main", "ANSWER_SECONDS": "2.5", "UNKNOWN": "x"})
    assert vars(settings) == {
        "environment": "test",
        "table_name": "videos",
        "answer_seconds": 2.5,
        "most": 3,
        "is_local": True,
        "names": ("240p", "720p"),
        "quotas": {"probe": 4, "purge": 1},
        "bus": "main",
        "urls": {"a": "1", "b": "2"},
    }


def test_settings_are_read_only() -> None:
    settings = Example.read(VALID)
    with pytest.raises(AttributeError, match="most is read only"):
        settings.most = 4  # type: ignore[misc]


@pytest.mark.parametrize("optional", [{}, {"IS_LOCAL": "", "BUS": "", "ANSWER_SECONDS": ""}])
def test_settings_have_defaults_for_optional_variables_that_are_missing_or_empty(optional: dict[str, str]) -> None:
    settings = Example.read(VALID | optional)
    assert (settings.is_local, settings.bus, settings.answer_seconds) == (False, None, 5)


def test_error_of_invalid_settings_names_every_invalid_variable() -> None:
    faults = {"TABLE_NAME": "", "MOST": "many", "IS_LOCAL": "yes", "QUOTAS": "probe", "B_URL": "", "NAMES": ""}
    with pytest.raises(InvalidSettings) as raised:
        Example.read(VALID | faults)
    assert [name for name in VALID | faults if name in str(raised.value)] == [
        name for name in VALID | faults if name in faults
    ]
    assert "IS_LOCAL is 'yes': must be true or false" in str(raised.value)
