"""Wrong values of the context, each with the sentence that refuses it before anything is deployed."""

from typing import Any

import pytest

from infra.settings import Misconfigured
from tests.unit.infra.templates import EXISTING_BUS, LOCAL, Json, context_names, settings_of

UNCHECKED = {"alarmEmail", "allowOrigins", "callbackUrls", "consoleClient"}
"""Context values that infra does not check. `make deploy` checks the sites (tools/preflight.py), AWS the others."""

PERIODS = "1, 3, 7, 14, 30, 60, 90, 180, 365, 731, 3653"
RENDITIONS = "1080p, 720p, 480p, 360p, 240p"
INDEXES = (
    "UserIdIndex, CategoryIndex, RelationIndex, YearIndex, UserDurationIndex, CategoryDurationIndex, ChangesetIndex"
)
VALUES = (
    "alarmEmail, alarms, allowOrigins, anomalyUsd, architecture, audience, auditDays, callbackUrls, coldStart, consoleClient, "
    "countOwnViews, dashboard, deletionProtection, deliveryWorkers, endpoint, eventBus, indexes, issuer, jobsPerDay, keepData, kmsKey, logDays, logLevel, "
    "recoveryDays, renditions, shift, streamArn, throttleBurst, throttleRate, viewWindow, webhookSecret"
)
BOTH = "Context 'issuer' and 'audience' go together: give both, or neither for a Cognito user pool."
ENDPOINT = "The local target, and it alone, needs '-c endpoint=http://...', where MiniStack serves objects."
COGNITO = (
    "Context 'env' cannot have '{}' in it, as '{}' has: it is part of the sign-in domain, and Cognito reserves the word. "
    "Choose another name, or give an issuer of your own."
)
ALARMS = (
    "Alarms need context 'logLevel' INFO: metrics are log lines of that level, and Lambda drops those below the level that is "
    "set. Give '-c alarms=false' with another one."
)

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
    ("countOwnViews", "one of true, false", ["sometimes"]),
    ("renditions", f"some of {RENDITIONS}, each once", ["720p,720p", "large", ["1440p"]]),
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
    ("indexes", f"some of {INDEXES}, each once", ["UserIdIndex,UserIdIndex", "TitleIndex"]),
    ("streamArn", "the ARN of a table's stream", ["arn:aws:dynamodb:eu-west-1:1:table/T"]),
    (
        "webhookSecret",
        "generated, or the complete ARN of a secret",
        ["VideoMetadata/webhooks", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:VideoMetadata/webhooks"],
    ),
    ("architecture", "one of arm64, x86_64", ["mips"]),
]
"""A name, the rule that its sentence states, and values that break it."""

WRONG: list[tuple[Json, str]] = [
    *(
        ({name: value}, f"Context '{name}' must be {rule}, not {value!r}.")
        for name, rule, values in MUST_BE
        for value in values
    ),
    ({"target": "local"}, "The local target has no Cognito: give its issuer by '-c issuer=... -c audience=...'."),
    (LOCAL | {"endpoint": ""}, ENDPOINT),
    ({"endpoint": "http://127.0.0.1:4566"}, ENDPOINT),
    ({"env": "laws"}, COGNITO.format("aws", "laws")),
    ({"env": "amazonas"}, COGNITO.format("amazon", "amazonas")),
    ({"env": "cognito2"}, COGNITO.format("cognito", "cognito2")),
    ({"issuer": "https://issuer.example"}, BOTH),
    ({"audience": "video-metadata"}, BOTH),
    ({"env": "prod", "logLevel": "ERROR"}, ALARMS),
    (
        {"environments": {"dev": {"logDays": 15}}},
        f"Context 'logDays' must be one of {PERIODS}, not 15.",
    ),
    (
        {"environments": {"dev": {"logdays": 3}}},
        f"The environment has no setting 'logdays'; there are {VALUES}.",
    ),
    (
        {"eventBus": EXISTING_BUS},
        "Context 'eventBus' names a bus in eu-west-1, but the service is deployed to us-east-1, and puts events on buses of "
        "its own region only. Name a bus in us-east-1; a rule of that bus can pass events on.",
    ),
]


@pytest.mark.parametrize(("context", "sentence"), WRONG, ids=[str(context)[:60] for context, _ in WRONG])
def test_a_wrong_value_is_refused_with_its_sentence(context: Json, sentence: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings_of(context, "us-east-1")
    assert str(refused.value) == sentence


def test_every_value_that_can_be_wrong_is_in_the_table() -> None:
    assert {name for context, _ in WRONG for name in context} >= context_names() - UNCHECKED
