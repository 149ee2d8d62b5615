"""Retention of data when its stack is deleted."""

from typing import cast

import aws_cdk as cdk

from infra.settings import DeploymentSettings


def retain(resource: cdk.Resource, settings: DeploymentSettings) -> None:
    """Set whether CloudFormation retains or deletes the resource when the stack is deleted.

    CloudFormation applies a changed deletion policy only if the resource has another change. Therefore this function
    also changes the metadata of the resource.
    """
    resource.apply_removal_policy(settings.removal_policy)
    cast(cdk.CfnResource, resource.node.default_child).add_metadata("KeepData", settings.keep_data)
