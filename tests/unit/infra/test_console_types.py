"""`make lint` fails if the console calls an operation that the API does not have, or if a test of its functions fails.

These tests start Node.
"""

import re
import shutil
from pathlib import Path

import pytest

from local import console
from tests.unit.infra.templates import ROOT

CALL = """
import createClient from "openapi-fetch";
/** @type {import("openapi-fetch").Client<import("#api").paths>} */
const api = createClient({});
const { data } = await api.GET("/v1/videos/{videoId}", { params: { path: { videoId: "1" } } });
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a temporary checkout with the console's configuration and the Node packages, but without modules."""
    (tmp_path / "console").mkdir()
    shutil.copy(ROOT / "console" / "tsconfig.json", tmp_path / "console")
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path


def test_every_console_call_is_checked_against_the_openapi_document(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = "export const title = data?.title;\nexport const heading = data?.heading;\n"
    (checkout / "console" / "call.js").write_text(CALL + source)
    assert console.main(checkout) != 0
    output = capfd.readouterr().out
    assert re.findall(r"call\.js.*?error TS\d+: (Property '\w+' does not exist)", output) == [
        "Property 'heading' does not exist"
    ]
    assert output.count("error TS") == 1
    assert "Success:" not in output


def test_check_fails_if_a_test_of_a_function_fails(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "types", lambda _: [])
    (checkout / "console" / "one.js").write_text("export const one = 1;\n")
    tests = checkout / console.TESTS
    tests.mkdir(parents=True)
    (tests / "setup.js").touch()
    test = 'import { one } from "../../console/one.js";\nimport assert from "node:assert";\nimport { test } from "node:test";\n'
    for expected in (1, 2):
        (tests / "one.test.js").write_text(f'{test}test("one is counted", () => assert.equal(one, {expected}));\n')
        assert (console.main(checkout) == 0) is (expected == 1)
        output = capfd.readouterr().out
        assert ("Success:" in output) is (expected == 1)
        assert ("one is counted" in output) is (expected == 2)


def test_check_fails_without_an_openapi_document(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Otherwise an older document could be mistaken for the current one."""
    monkeypatch.setattr(console, "document", dict)
    assert console.main(checkout) != 0
    assert "Success:" not in capfd.readouterr().out
