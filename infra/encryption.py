"""Encryption of stored data, with keys that AWS services own, or with one KMS key for all data."""

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from infra.retention import retain
from infra.settings import DeploymentSettings


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """KMS keys of a deployment."""

    data: kms.IKey | None
    """Key for tables, buckets, queues and secrets. `None` selects keys that the AWS services own, which are free."""
    logs: kms.IKey | None
    """Key for log groups. `None` unless the deployment creates the key, because only the policy of a created key
    names CloudWatch."""

    @classmethod
    def chosen(cls, stack: cdk.Stack, settings: DeploymentSettings) -> "Encryption":
        """Return the keys that the setting `kmsKey` selects. With `create`, add a new key to the stack."""
        if settings.kms_key is None:
            return cls(data=None, logs=None)
        if settings.kms_key != "create":
            return cls(data=kms.Key.from_key_arn(stack, "GivenKey", settings.kms_key), logs=None)
        own_key = _own_key(stack, settings)
        # Imported by ARN, so that constructs encrypted with the key cannot extend its policy.
        key = kms.Key.from_key_arn(stack, "OwnKey", own_key.key_arn)
        return cls(data=key, logs=key)


def _own_key(stack: cdk.Stack, settings: DeploymentSettings) -> kms.Key:
    """Return a new key. When its stack is deleted, the key is retained if the data is retained.

    The key policy delegates to IAM, so the functions' roles grant access. The policy also names the AWS services that
    use the key without a role. The resources of these services are in later stacks, so the policy refers to the
    resources by predictable names.
    """
    key = kms.Key(
        stack,
        "Key",
        description=f"{settings.stack_name('Data')}: tables, buckets, queues, logs and the cursor secret",
        alias=f"alias/video-metadata-{settings.env}",
        enable_key_rotation=True,
        rotation_period=cdk.Duration.days(365),
    )
    retain(key, settings)
    statements = [_uploads(stack, settings), _logs(stack, settings)]
    if settings.target == "aws":
        statements.append(_pictures(stack))
    for statement in statements:
        key.add_to_resource_policy(statement)
    return key


def _uploads(stack: cdk.Stack, settings: DeploymentSettings) -> iam.PolicyStatement:
    """Return the statement that allows S3 to send upload notifications to an encrypted queue."""
    bucket = stack.format_arn(service="s3", region="", account="", resource=settings.sources_bucket_name)
    return iam.PolicyStatement(
        sid="UploadsAreTold",
        principals=[iam.ServicePrincipal("s3.amazonaws.com")],
        actions=["kms:GenerateDataKey", "kms:Decrypt"],
        resources=["*"],
        conditions={
            "ArnEquals": {"aws:SourceArn": bucket},
            # A separate condition, because a bucket's ARN contains no account id.
            "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
        },
    )


def _logs(stack: cdk.Stack, settings: DeploymentSettings) -> iam.PolicyStatement:
    """Return the statement that allows CloudWatch to encrypt this environment's log groups."""
    prefix = settings.stack_name("")
    groups = [
        stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{start}{prefix}*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        for start in ("", "/aws/vendedlogs/")
    ]
    return iam.PolicyStatement(
        sid="LogsAreKept",
        principals=[iam.ServicePrincipal(f"logs.{cdk.Aws.REGION}.amazonaws.com")],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def _pictures(stack: cdk.Stack) -> iam.PolicyStatement:
    """Return the statement that allows CloudFront to decrypt thumbnails.

    The distribution does not exist yet, so the statement allows every distribution of the account. The bucket's policy
    restricts reads to one distribution.
    """
    distributions = stack.format_arn(service="cloudfront", region="", resource="distribution", resource_name="*")
    return iam.PolicyStatement(
        sid="PicturesAreShown",
        principals=[iam.ServicePrincipal("cloudfront.amazonaws.com")],
        actions=["kms:Decrypt"],
        resources=["*"],
        conditions={"ArnLike": {"aws:SourceArn": distributions}},
    )
