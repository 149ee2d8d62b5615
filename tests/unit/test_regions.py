"""Codes of regions and languages: equal to the ISO and IANA standards."""

import pycountry
import pytest

from shared.core.regions import ALPHA_2, CATALOGUE_REGIONS, FORMER, language, region


def test_every_current_country_is_a_region() -> None:
    assert {country.alpha_2 for country in pycountry.countries} == ALPHA_2


def test_every_former_country_is_a_region() -> None:
    assert {country.alpha_4 for country in pycountry.historic_countries} == FORMER


def test_all_other_regions_have_user_assigned_codes() -> None:
    assert all("XAA" <= code <= "XZZ" and len(code) == 3 for code in CATALOGUE_REGIONS)


@pytest.mark.parametrize(("text", "code"), [("NZ", "NZ"), ("nz", "NZ"), ("suhh", "SUHH"), ("XWW", "XWW")])
def test_case_does_not_matter(text: str, code: str) -> None:
    assert region(text) == code


@pytest.mark.parametrize("text", ["", "ZZ", "UK", "NZL", "XZ", "N", "\uff2e\uff3a", "ßß", "-"])
def test_an_unknown_code_is_not_a_region(text: str) -> None:
    assert region(text) is None


@pytest.mark.parametrize(
    ("tag", "usual"),
    [
        ("en", "en"),
        ("EN-nz", "en-NZ"),
        ("ZH-HANT-tw", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("de-ch-1901", "de-CH-1901"),
        ("sl-ROZAJ", "sl-rozaj"),
        ("en-us-X-TWAIN", "en-US-x-twain"),
        ("en-a-BBB-x-a-CCC", "en-a-bbb-x-a-ccc"),
    ],
)
def test_languages_are_written_in_their_usual_form(tag: str, usual: str) -> None:
    assert language(tag) == usual
