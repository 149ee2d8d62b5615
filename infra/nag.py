"""Accepted deviations from cdk-nag rules, each with a reason."""

import aws_cdk as cdk
from constructs import IConstruct


def accept(construct: IConstruct, *, rule: str, reason: str) -> None:
    """Accept one finding on one construct."""
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))
