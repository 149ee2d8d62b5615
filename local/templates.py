"""`make synth`: synthesises deployments with all optional features, checks them with cdk-nag, and lints the templates.

The functions are not packaged: no rule reads their code, and `tests/unit/infra/test_packaging.py` checks the packages.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from app import new_app, synthesize
from local import STATE, LocalError, exit_status

FOLDER = STATE / "templates"

DEPLOYMENTS: Mapping[str, Mapping[str, object]] = {
    "with the defaults": {},
    "production with its own key, bus, costs and snapshots": {
        "env": "prod",
        "alarmEmail": "oncall@example.com",
        "allowOrigins": "https://videos.example",
        "anomalyUsd": 20,
        "callbackUrls": "https://videos.example/signed-in",
        "coldStart": "snapstart",
        "eventBus": "arn:aws:events:eu-west-1:111122223333:event-bus/changes",
        "kmsKey": "create",
        "readUnits": "1-8000",
        "searchEngine": "opensearch",
        "searchInstances": 1,
        "snapshotDays": 35,
        "warmThroughput": "24000/8000",
    },
    "with resources of other owners, and nothing kept": {
        "env": "trial",
        "alarms": "false",
        "anomalyUsd": 20,
        "architecture": "x86_64",
        "audience": "video-metadata",
        "capacityMode": "provisioned",
        "capacitySteps": "06:30=x4,20:00=x1",
        "coldStart": "provisioned:2",
        "consoleClient": "console",
        "countOwnViews": "true",
        "dashboard": "true",
        "deletionProtection": "false",
        "eventBus": "changes",
        "indexes": "UserIdIndex,RelationIndex",
        "infrequentAccess": "VideoAudit",
        "issuer": "https://issuer.example",
        "keepData": "false",
        "kmsKey": "arn:aws:kms:eu-west-1:111122223333:key/12345678-90ab-cdef-1234-567890abcdef",
        "logLevel": "WARNING",
        "openSearch": "collection",
        "openSearchNodes": "1xt3.small:10",
        "readUnits": "5-1000,RelationIndex=10-2000",
        "renditions": "360p",
        "searchEngine": "opensearch",
        "shift": "linear",
        "snapshotDays": 7,
        "streamArn": "arn:aws:dynamodb:eu-west-1:111122223333:table/VideoMetadata-trial/stream/2026-01-01T00:00:00.000",
        "targetUse": 60,
        "webhookSecret": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:VideoMetadata-trial/webhooks-AbCdEf",
        "writeUnits": "5-500",
    },
}
"""Context values by description of the deployment. Each setting that adds or changes resources occurs at least once."""

NO_PACKAGES: Mapping[str, object] = {"aws:cdk:bundling-stacks": []}
"""Context values that disable the packaging of functions in all stacks."""


def check(folder: Path, deployments: Mapping[str, Mapping[str, object]] = DEPLOYMENTS) -> None:
    """Empty `folder`, write the templates of these deployments to it, and check them. Raises LocalError if a check
    fails."""
    shutil.rmtree(folder, ignore_errors=True)
    failed = []
    for name, context in deployments.items():
        try:
            synthesize(new_app({**context, **NO_PACKAGES}, folder))
        except RuntimeError as error:
            print(error, flush=True)
            failed.append(name)
    templates = sorted(map(str, folder.glob("*.template.json")))
    lint = [str(Path(sys.executable).with_name("cfn-lint")), "--ignore-checks", "W3005", "--template", *templates]
    if subprocess.run(lint, check=False).returncode != 0:
        failed.append("cfn-lint")
    print(*templates, sep="\n")
    if failed:
        raise LocalError(f"The checks of these templates failed, for the reasons above: {'; '.join(failed)}.")


if __name__ == "__main__":
    sys.exit(exit_status(lambda: check(FOLDER)))
