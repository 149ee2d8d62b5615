"""The CDK app, which adds all stacks of one environment.

Synthesis sends no request to AWS. The credentials at deployment determine account and region.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk

from infra.api_stack import ApiStack
from infra.costs_stack import CostsStack
from infra.data_stack import DataStack
from infra.identity import IdentityStack
from infra.jobs_stack import JobsStack
from infra.media_stack import MediaStack
from infra.opensearch import SearchCluster, SearchStack
from infra.operations_stack import OperationsStack
from infra.packaging import service_code
from infra.settings import DeploymentSettings, Misconfigured

HERE = Path(__file__).resolve().parent


def add_stacks(app: cdk.App, region: str | None = None) -> None:
    """Add all stacks of an environment to the app: first data, media and identity, then the functions and their
    monitoring.

    `region` is the target region, or `None` if it is unknown. Raises Misconfigured.
    """
    settings = DeploymentSettings.from_context(app.node, region)
    tags = settings.tags
    data = DataStack(app, settings.stack_name("Data"), settings=settings, tags=tags)
    media = MediaStack(app, settings.stack_name("Media"), settings=settings, encryption=data.encryption, tags=tags)
    issuer, identity = settings.issuer, None
    if issuer is None:
        identity = IdentityStack(app, settings.stack_name("Identity"), settings=settings, tags=tags)
        issuer = identity.issuer
    cluster: SearchCluster | None = None
    if settings.search_engine == "opensearch":
        cluster = SearchCluster.existing(settings)
        if cluster is None:
            id_ = settings.stack_name("Search")
            cluster = SearchStack(app, id_, settings=settings, encryption=data.encryption, tags=tags).cluster
    jobs = JobsStack(
        app,
        settings.stack_name("Jobs"),
        settings=settings,
        code=service_code(settings),
        media_code=service_code(settings, media=True),
        search_code=service_code(settings, search=True),
        archive_code=service_code(settings, archive=True),
        data=data,
        media=media,
        cluster=cluster,
        tags=tags,
    )
    api = ApiStack(
        app,
        settings.stack_name("Api"),
        settings=settings,
        code=service_code(settings),
        search_code=service_code(settings, search=True),
        data=data,
        media=media,
        cluster=cluster,
        issuer=issuer,
        identity=identity,
        queues={"arrivals": media.arrivals_queue, **jobs.queues},
        tags=tags,
    )
    # An outdated router would skip stream records of new item types, and the stream delivers them only once.
    api.add_stack_dependency(jobs, reason="the stream consumers must exist before the API accepts the first write")
    last: cdk.Stack = api
    if settings.is_watched:
        last = OperationsStack(
            app,
            settings.stack_name("Operations"),
            settings=settings,
            media=media,
            cluster=cluster,
            jobs=jobs,
            api=api,
            tags=tags,
        )
    if settings.target == "aws" and settings.anomaly_usd:
        costs = CostsStack(app, settings.stack_name("Costs"), settings=settings, tags=tags)
        costs.add_stack_dependency(
            last, reason="AWS refuses this stack in some accounts, so all other stacks are deployed first"
        )


def new_app(chosen: Mapping[str, object] | None = None, folder: Path = Path("cdk.out")) -> cdk.App:
    """Return an app. If the CDK command line started this process, the app has the context from the command line,
    otherwise the context in cdk.json.

    `chosen` overrides values of cdk.json, as `-c name=value` does. `folder` receives the templates. If the CDK command
    line started this process, both parameters have no effect.
    """
    if "CDK_OUTDIR" in os.environ:
        return cdk.App()
    # `sam local` finds the code of a function by this metadata, which the CDK command line enables by default.
    metadata = {"aws:cdk:enable-asset-metadata": True, "aws:cdk:enable-path-metadata": True}
    context = json.loads((HERE / "cdk.json").read_text())["context"]
    return cdk.App(outdir=str(folder), context={**context, **metadata, **(chosen or {})})


def synthesize(app: cdk.App, region: str | None = None) -> None:
    """Write the CloudFormation templates and their assets, and check the templates for AWS with cdk-nag.

    Raises Misconfigured. Raises RuntimeError if cdk-nag finds faults, after it has printed them.
    """
    add_stacks(app, region)
    if app.node.try_get_context("target") != "local" and os.environ.get("CDK_VALIDATION") != "false":
        from cdk_nag import AwsSolutionsChecks  # loading the rules takes longer than adding all stacks

        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


def main() -> None:
    """Synthesize the app for the CDK command line or for `python app.py`."""
    try:
        synthesize(new_app(), os.environ.get("CDK_DEFAULT_REGION"))  # the CDK command line sets this variable
    except Misconfigured as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
