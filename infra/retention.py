"""What becomes of data when its stack is deleted."""

from typing import cast

import aws_cdk as cdk

from infra.settings import Settings


def retain(resource: cdk.Resource, settings: Settings) -> None:
    """Keep the resource when its stack is deleted, or let it go, as the settings say.

    CloudFormation takes a new deletion policy only along with another change of a resource, so the metadata changes
    with it.
    """
    resource.apply_removal_policy(settings.removal_policy)
    cast(cdk.CfnResource, resource.node.default_child).add_metadata("KeepData", settings.keep_data)
