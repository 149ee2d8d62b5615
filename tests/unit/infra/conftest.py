"""Tests of what the CDK app makes. They start Node, and package the functions; nothing beside this folder does."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.infra.templates import LOCAL, Templates

Synthesize = Callable[[dict[str, Any]], Templates]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """What a deployment with the given context would create."""
    made: dict[str, Templates] = {}

    def templates_for(context: dict[str, Any]) -> Templates:
        key = json.dumps(context, sort_keys=True)
        if key not in made:
            made[key] = Templates(context, tmp_path_factory.mktemp("cdk.out"))
        return made[key]

    return templates_for


@pytest.fixture(scope="session")
def aws(synthesize: Synthesize) -> Templates:
    """What `cdk deploy` creates when nothing is chosen."""
    return synthesize({})


@pytest.fixture(scope="session")
def staging(synthesize: Synthesize) -> Templates:
    """What `cdk deploy -c env=staging` creates."""
    return synthesize({"env": "staging"})


@pytest.fixture(scope="session")
def prod(synthesize: Synthesize) -> Templates:
    """What `cdk deploy -c env=prod` creates."""
    return synthesize({"env": "prod"})


@pytest.fixture(scope="session")
def encrypted(synthesize: Synthesize) -> Templates:
    """What production is with a KMS key of its own."""
    return synthesize({"env": "prod", "kmsKey": "create"})


@pytest.fixture(scope="session")
def local(synthesize: Synthesize) -> Templates:
    """What `make run` creates."""
    return synthesize(LOCAL)
