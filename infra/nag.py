"""Accepted deviations from cdk-nag rules, each with a reason."""

import aws_cdk as cdk
from constructs import IConstruct


def accept(construct: IConstruct, *, rule: str, reason: str) -> None:
    """Suppress the cdk-nag rule `rule` for a construct, and record the reason."""
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))
