"""Fixtures for tests of the CDK app. Only tests in this folder start Node or package the functions."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.unit.infra.templates import (
    BOUNDARY,
    EXISTING_BUS,
    EXISTING_DOMAIN,
    EXISTING_KEY,
    EXISTING_STREAM,
    ISSUER,
    LOCAL,
    ON_CALL,
    Json,
    Templates,
    synthesized,
    synthesized_cluster,
)

Synthesize = Callable[[dict[str, Any]], Templates]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Return a function that synthesizes a deployment from its context, and returns the templates.

    It synthesizes each context only once per process. A synthesis takes a second, so new tests should use the
    deployments below, which together cover every choice.
    """

    @cache
    def templates(text: str) -> Templates:
        return Templates(synthesized(json.loads(text), tmp_path_factory.mktemp("cdk.out")))

    return lambda context: templates(json.dumps(context, sort_keys=True))


@pytest.fixture(scope="session")
def defaults(synthesize: Synthesize) -> Templates:
    """Return a deployment with the defaults."""
    return synthesize({})


@pytest.fixture(scope="session")
def staging(synthesize: Synthesize) -> Templates:
    """Return the deployment of `cdk deploy -c env=staging`."""
    return synthesize({"env": "staging"})


@pytest.fixture(scope="session")
def prod(synthesize: Synthesize) -> Templates:
    """Return the deployment of `cdk deploy -c env=prod`."""
    return synthesize({"env": "prod"})


@pytest.fixture(scope="session")
def provisioned(synthesize: Synthesize) -> Templates:
    """Return production with provisioned capacity."""
    return synthesize(
        {
            "env": "prod",
            "capacityMode": "provisioned",
            "capacitySteps": "06:30=x4,20:00=x1",
            "readUnits": "5-1000,RelationIndex=10-4000,VideoAudit=2-8",
            "targetUse": 60,
            "writeUnits": "5-500",
        }
    )


@pytest.fixture(scope="session")
def encrypted(synthesize: Synthesize) -> Templates:
    """Return production with its own KMS key, an email address for alarms, cost anomaly detection, and snapshots."""
    return synthesize({"env": "prod", "kmsKey": "create", "alarmEmail": ON_CALL, "anomalyUsd": 20, "snapshotDays": 7})


@pytest.fixture(scope="session")
def cost_alerts(synthesize: Synthesize) -> Templates:
    """Return production in an account that permits cost anomaly detection."""
    return synthesize({"env": "prod", "anomalyUsd": 20})


@pytest.fixture(scope="session")
def existing_resources(synthesize: Synthesize) -> Templates:
    """Return production with an existing KMS key and issuer, a web site, and no app client for the console."""
    return synthesize(
        {
            "env": "prod",
            "kmsKey": EXISTING_KEY,
            "alarmEmail": ON_CALL,
            "allowOrigins": "https://videos.example",
            **ISSUER,
        }
    )


@pytest.fixture(scope="session")
def snapstart(synthesize: Synthesize) -> Templates:
    """Return a SnapStart deployment with a named event bus, and a console client at an external issuer.

    It searches in an existing OpenSearch domain, with provisioned instances of the search function.
    """
    return synthesize(
        {
            "coldStart": "snapstart",
            "eventBus": "changes",
            "consoleClient": "films-console",
            "openSearch": EXISTING_DOMAIN,
            "searchEngine": "opensearch",
            "searchInstances": 2,
            **ISSUER,
        }
    )


@pytest.fixture(scope="session")
def other_values(synthesize: Synthesize) -> Templates:
    """Return a deployment in which every setting has another value than the default, as far as the values can be
    combined."""
    return synthesize(
        {
            "allowOrigins": "https://films.example",
            "@aws-cdk/core:permissionsBoundary": {"name": BOUNDARY},
            "anomalyUsd": 5,
            "architecture": "x86_64",
            "callbackUrls": "https://videos.example/console/",
            "coldStart": "provisioned:3",
            "dashboard": "true",
            "eventBus": EXISTING_BUS,
            "infrequentAccess": "VideoAudit",
            "logLevel": "ERROR",
            "openSearch": "collection",
            "readUnits": "1-8000,RelationIndex=1-9000",
            "searchEngine": "opensearch",
            "shift": "linear",
            "streamArn": EXISTING_STREAM,
            "warmThroughput": "24000/8000",
            "writeUnits": "1-4000",
        }
    )


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Json]]:
    """Return the templates of a new OpenSearch domain and of a new collection, each with its alarms."""
    return {
        kind: synthesized_cluster({"searchEngine": "opensearch", "openSearch": kind}, tmp_path_factory.mktemp(kind))
        for kind in ("domain", "collection")
    }


@pytest.fixture(scope="session")
def local(synthesize: Synthesize) -> Templates:
    """Return the deployment of `make run`."""
    return synthesize(LOCAL)
