"""Wrong context values are refused before a deployment, each with its own message."""

from typing import Any

import pytest

from infra.settings import Misconfigured
from tests.unit.infra.templates import EXISTING_BUS, EXISTING_DOMAIN, LOCAL, Json, context_names, settings_of

UNCHECKED = {"alarmEmail", "allowOrigins", "callbackUrls", "consoleClient"}
"""Context values that infra does not check. tools/preflight.py checks that `allowOrigins` and `callbackUrls` are set.
AWS checks the other two."""

PERIODS = "1, 3, 7, 14, 30, 60, 90, 180, 365, 731, 3653"
RENDITIONS = "1080p, 720p, 480p, 360p, 240p"
INDEXES = (
    "UserIdIndex, CategoryIndex, RelationIndex, YearIndex, UserDurationIndex, CategoryDurationIndex, "
    "UserOrderIndex, CategoryOrderIndex, ChangesetIndex"
)
VALUES = (
    "alarmEmail, alarms, allowOrigins, anomalyUsd, architecture, audience, auditDays, callbackUrls, capacityMode, capacitySteps, "
    "captionCues, captionDays, coldStart, consoleClient, countOwnViews, dashboard, deletionProtection, deliveryWorkers, endpoint, eventBus, indexes, "
    "infrequentAccess, issuer, jobsPerDay, keepData, kmsKey, logDays, logLevel, openSearch, openSearchNodes, readUnits, recoveryDays, "
    "renditions, searchEngine, searchInstances, shift, snapshotDays, "
    "streamArn, targetUse, throttleBurst, throttleRate, viewWindow, warmThroughput, webhookSecret, writeUnits"
)
BOTH = "Context 'issuer' and 'audience' require each other. Set both, or neither for a Cognito user pool."
ENDPOINT = "Context 'endpoint' is required for the target 'local', and not allowed for 'aws'. It is the URL of objects in MiniStack."
COGNITO = (
    "Context 'env' must not contain '{}', which Cognito reserves in sign-in domains, but is '{}'. "
    "Choose another name, or set 'issuer' and 'audience'."
)
ALARMS = (
    "Context 'logLevel' must be INFO, not ERROR, because alarms read metrics from log lines of that level. "
    "Set 'logLevel' to INFO, or 'alarms' to false."
)
RANGE = (
    "a range such as 5-1000, which ranges of single tables or indexes may follow, such as RelationIndex=5-4000 "
    f"(VideoMetadata, VideoAudit, {INDEXES})"
)
PROVISIONED = {"capacityMode": "provisioned", "readUnits": "5-1000", "writeUnits": "5-500"}
UNITS = "Context 'capacityMode' provisioned requires 'readUnits' and 'writeUnits', such as 5-1000."

MUST_BE: list[tuple[str, str, list[Any]]] = [
    ("target", "one of aws, local", ["moon"]),
    ("env", "up to 16 lower-case letters and digits", ["Dev_1", "a-b", "1st", "a" * 17]),
    ("throttleRate", "a whole number from 1", ["0", 0]),
    ("throttleRate", "a whole number", ["-1", -1]),
    ("throttleBurst", "a whole number", ["1.5", "1e3"]),
    ("throttleBurst", "a whole number from 1", ["0"]),
    ("jobsPerDay", "a whole number from 1", ["0"]),
    ("auditDays", "a whole number", ["many"]),
    ("auditDays", "a whole number from 1", [0]),
    ("deliveryWorkers", "from 3 to 1000", ["2", "1001"]),
    ("viewWindow", "from 1 to 1440", ["0", "1441"]),
    ("captionDays", "from 0 to 36500", ["36501"]),
    ("captionCues", "from 0 to 40000", ["40001"]),
    ("searchInstances", "from 0 to 100", ["101"]),
    ("snapshotDays", "from 0 to 3650", ["3651"]),
    ("searchEngine", "one of embedded, opensearch", ["elastic"]),
    (
        "openSearch",
        "domain, collection, or an existing one with its name and URL, such as "
        "domain:films=https://search-films-abc.eu-west-1.es.amazonaws.com",
        [
            "https://search-films-abc.eu-west-1.es.amazonaws.com",
            "domain:films=http://search-films-abc.eu-west-1.es.amazonaws.com",
            "domain:films=https://search.example/films",
            "collection:films=https://search.example",
            "collection:films=https://search-films-abc.eu-west-1.es.amazonaws.com",
        ],
    ),
    (
        "openSearchNodes",
        "the number, type and GB (at least 10) of the nodes, such as 3xm7g.medium:50",
        ["3", "0xt3.small:20", "3xt3:20", "3xt3.small.search:20", "3xt3.small:9"],
    ),
    ("countOwnViews", "one of true, false", ["sometimes"]),
    ("renditions", f"one or more of {RENDITIONS}, without duplicates", ["720p,720p", "large", ["1440p"]]),
    ("logDays", f"one of {PERIODS}", [15]),
    ("logDays", "a whole number", ["long"]),
    ("logLevel", "one of INFO, WARNING, ERROR", ["DEBUG"]),
    ("recoveryDays", "from 1 to 35", ["0", "36"]),
    ("keepData", "one of true, false", ["no"]),
    ("deletionProtection", "one of true, false", ["off"]),
    ("alarms", "one of true, false", ["loud"]),
    ("dashboard", "one of true, false", ["wide"]),
    ("anomalyUsd", "a whole number", ["-1"]),
    ("anomalyUsd", "from 0 to 99999", [100_000]),
    (
        "coldStart",
        "none, snapstart or provisioned:<instances>",
        ["snapstart,provisioned:1", "provisioned:0", "provisioned:1000"],
    ),
    ("shift", "one of none, canary, linear", ["slow"]),
    ("kmsKey", "none, create, or the ARN of a KMS key", ["alias/mine", "arn:aws:kms:eu-west-1:1:key/k"]),
    (
        "eventBus",
        "none, or the name or ARN of an event bus",
        ["two words", "a" * 257, "arn:aws:events:eu-west-1:1:event-bus/b", "arn:aws:sqs:eu-west-1::q"],
    ),
    ("indexes", f"one or more of {INDEXES}, without duplicates", ["UserIdIndex,UserIdIndex", "TitleIndex"]),
    ("streamArn", "the ARN of a table's stream", ["arn:aws:dynamodb:eu-west-1:1:table/T"]),
    (
        "webhookSecret",
        "generated, or the complete ARN of a secret",
        ["VideoMetadata/webhooks", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:VideoMetadata/webhooks"],
    ),
    ("architecture", "one of arm64, x86_64", ["mips"]),
    ("capacityMode", "one of onDemand, provisioned", ["PROVISIONED"]),
    (
        "readUnits",
        RANGE,
        ["5", "0-5", "9-5", "5-1000000000", "RelationIndex=5-9", "5-9,6-9", "5-9,TagIndex=5-9", "5-9,VideoAudit=9-5"],
    ),
    ("writeUnits", RANGE, ["5-9,UserIdIndex=5-9,UserIdIndex=5-9", "5-9,"]),
    ("targetUse", "from 20 to 90", [19, "91"]),
    ("targetUse", "a whole number", ["0.7"]),
    (
        "capacitySteps",
        "none, or UTC times with factors such as 06:30=x10,20:00=x1, without repeated times",
        ["24:00=x2", "6:30=x2", "06:30=2", "06:30=x0", "06:30=x2,06:30=x1", "06:30=x2,"],
    ),
    ("warmThroughput", "none, or reads/writes of at least 12000/4000", ["20000", "11999/4000", "12000/3999"]),
    (
        "infrequentAccess",
        "one or more of VideoMetadata, VideoAudit, without duplicates",
        ["VideoAudit,VideoAudit", "UserIdIndex"],
    ),
]
"""Names of context values, the rule that the message states, and values that break the rule."""

WRONG: list[tuple[Json, str]] = [
    *(
        ({name: value}, f"Context '{name}' must be {rule}, not {value!r}.")
        for name, rule, values in MUST_BE
        for value in values
    ),
    ({"target": "local"}, "The target 'local' has no Cognito. Set an issuer with '-c issuer=... -c audience=...'."),
    (LOCAL | {"endpoint": ""}, ENDPOINT),
    ({"endpoint": "http://127.0.0.1:4566"}, ENDPOINT),
    ({"env": "laws"}, COGNITO.format("aws", "laws")),
    ({"env": "amazonas"}, COGNITO.format("amazon", "amazonas")),
    ({"env": "cognito2"}, COGNITO.format("cognito", "cognito2")),
    ({"issuer": "https://issuer.example"}, BOTH),
    ({"audience": "video-metadata"}, BOTH),
    ({"env": "prod", "logLevel": "ERROR"}, ALARMS),
    (PROVISIONED | {"readUnits": "none"}, UNITS),
    (PROVISIONED | {"writeUnits": ""}, UNITS),
    (
        {"capacitySteps": "06:30=x2"},
        "Context 'capacitySteps' requires 'capacityMode' provisioned, because an on-demand table has no minimum.",
    ),
    (
        PROVISIONED | {"writeUnits": "5-500,VideoAudit=5-49", "capacitySteps": "06:30=x10,20:00=x1"},
        "Context 'capacitySteps' has the factor x10, which raises the minimum 5 of 'writeUnits' above its maximum 49. Choose a smaller "
        "factor or a higher maximum.",
    ),
    (
        {"environments": {"dev": {"logDays": 15}}},
        f"Context 'logDays' must be one of {PERIODS}, not 15.",
    ),
    (
        {"environments": {"dev": {"logdays": 3}}},
        f"The environment has the unknown setting 'logdays'. The settings are {VALUES}.",
    ),
    (
        {"openSearch": EXISTING_DOMAIN},
        "Context 'openSearch' names a cluster in eu-west-1, but the service is deployed to us-east-1. Name a cluster in "
        "us-east-1.",
    ),
    (
        {"openSearch": "domain:films=https://vpc-films-abc.us-east-1.es.amazonaws.com"},
        "Context 'openSearch' names a domain in a VPC, which the functions cannot reach: "
        "'domain:films=https://vpc-films-abc.us-east-1.es.amazonaws.com'. Name a domain with public access. It accepts only "
        "requests that a permitted role has signed.",
    ),
    (
        {"eventBus": EXISTING_BUS},
        "Context 'eventBus' names a bus in eu-west-1, but the service is deployed to us-east-1, and can only put events on "
        "buses of its own region. Name a bus in us-east-1, and forward its events by a rule.",
    ),
]


@pytest.mark.parametrize(("context", "sentence"), WRONG, ids=[str(context)[:60] for context, _ in WRONG])
def test_wrong_context_value_is_refused_with_its_message(context: Json, sentence: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings_of(context, "us-east-1")
    assert str(refused.value) == sentence


def test_table_has_every_context_value_that_can_be_wrong() -> None:
    assert {name for context, _ in WRONG for name in context} >= context_names() - UNCHECKED
