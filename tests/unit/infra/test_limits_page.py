"""Rates in docs/limits.md: each row begins with its lowest limit, which matches cdk.json and the gateway."""

import json
import re

from infra.archive import QUERY_BYTES
from infra.gateway import ROUTE_LIMITS
from local.testbed.limits import WRITES
from shared.questions.runs import dollars
from shared.schema import LANES, MAX_VIEW_SHARDS
from tests.unit.infra.templates import ROOT, Templates

PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Rates\n")[2].partition("\n## ")[0]
ROWS = {
    path: (lowest, following)
    for path, lowest, following in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", SECTION, re.MULTILINE)
    if path not in ("Path", "---")
}
ENVIRONMENTS = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["environments"]
WITHIN_THE_THROTTLE = ("requests of all", "views of", "ratings of")
"""First words of the rows about requests by clients, which the gateway throttles."""


def _first_number(text: str) -> int:
    return int(re.findall(r"\d[\d,]*", text)[0].replace(",", ""))


def test_rates_of_requests_begin_with_the_production_throttle(prod: Templates) -> None:
    throttle = prod.one("AWS::ApiGatewayV2::Stage")["Properties"]["DefaultRouteSettings"]["ThrottlingRateLimit"]
    rows = [lowest for path, (lowest, _) in ROWS.items() if path.startswith(WITHIN_THE_THROTTLE)]
    assert len(rows) == 4
    assert {_first_number(lowest) for lowest in rows} == {throttle}
    assert all(f"{throttle} requests (`throttleRate`" in lowest for lowest in rows)


def test_page_names_the_throttle_of_every_environment() -> None:
    (lowest, _) = ROWS["requests of all callers together"]
    dev, staging, prod = (ENVIRONMENTS[env]["throttleRate"] for env in ("dev", "staging", "prod"))
    assert lowest == f"{prod} requests (`throttleRate`; {dev} in dev, {staging} in staging)"


def test_lowest_limit_of_views_is_below_every_following_one() -> None:
    lowest, following = ROWS["views of one video without `viewerId` and `Idempotency-Key`"]
    limits = [int(number.replace(",", "")) for number in re.findall(r"\d+,000", following)]
    assert [_first_number(lowest), *limits] == sorted([_first_number(lowest), *limits])
    assert MAX_VIEW_SHARDS * WRITES * 0.9 < limits[-1] <= MAX_VIEW_SHARDS * WRITES
    assert f"the {MAX_VIEW_SHARDS} items of a counter" in following
    assert f"one of the {LANES} partitions for the viewers" in GLOSSARY


def test_rows_of_operations_with_a_separate_throttle_begin_with_its_rate() -> None:
    rows = {"testWebhook": "tests of all webhooks together", "runQuestion": "runs of all saved questions together"}
    rates = {operation: _first_number(ROWS[row][0]) for operation, row in rows.items()}
    assert rates == {operation: rate for operation, (rate, _) in ROUTE_LIMITS.items()}


def test_archive_page_has_the_highest_cost_of_questions_per_hour() -> None:
    page = (ROOT / "docs" / "archive.md").read_text(encoding="utf-8")
    cost = 3600 * ROUTE_LIMITS["runQuestion"][0] * dollars(QUERY_BYTES)
    assert f"so a client in a loop costs at most about ${cost:.0f} an hour" in page
