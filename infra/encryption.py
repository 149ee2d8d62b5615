"""What data is encrypted with: the services' own keys, or one KMS key for all of it."""

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from infra.retention import retain
from infra.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """The keys of a deployment."""

    data: kms.IKey | None
    """For tables, buckets, queues and the secret; None: each service has a key of its own, which costs nothing."""
    logs: kms.IKey | None
    """For log groups: CloudWatch takes a key only when the key's own policy names it, so never a foreign one."""

    @classmethod
    def chosen(cls, stack: cdk.Stack, settings: Settings) -> "Encryption":
        """What the settings say; the key, if one is made, is in this stack."""
        if settings.kms_key is None:
            return cls(data=None, logs=None)
        if settings.kms_key != "create":
            return cls(data=kms.Key.from_key_arn(stack, "GivenKey", settings.kms_key), logs=None)
        made = _own_key(stack, settings)
        # By its ARN, so that nothing which is encrypted with it can add to its policy.
        key = kms.Key.from_key_arn(stack, "OwnKey", made.key_arn)
        return cls(data=key, logs=key)


def _own_key(stack: cdk.Stack, settings: Settings) -> kms.Key:
    """A key that lasts as long as the data.

    Its policy leaves it to the account's IAM policies who may use it, and the functions' roles have theirs. It names
    services only where they act by themselves. Those are in stacks that depend on this one, so they are named by what
    is known beforehand.
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


def _uploads(stack: cdk.Stack, settings: Settings) -> iam.PolicyStatement:
    """S3 itself notifies the queue of arrivals."""
    bucket = stack.format_arn(service="s3", region="", account="", resource=settings.sources_bucket_name)
    return iam.PolicyStatement(
        sid="UploadsAreTold",
        principals=[iam.ServicePrincipal("s3.amazonaws.com")],
        actions=["kms:GenerateDataKey", "kms:Decrypt"],
        resources=["*"],
        conditions={
            "ArnEquals": {"aws:SourceArn": bucket},
            # A bucket's ARN does not say whose it is.
            "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
        },
    )


def _logs(stack: cdk.Stack, settings: Settings) -> iam.PolicyStatement:
    """CloudWatch encrypts the log groups of this environment: the functions', and the gateway's."""
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
    """CloudFront shows the pictures of the media bucket.

    Which distribution it will be is not known here, so that any of this account may; but the bucket's policy lets
    only the right one read.
    """
    distributions = stack.format_arn(service="cloudfront", region="", resource="distribution", resource_name="*")
    return iam.PolicyStatement(
        sid="PicturesAreShown",
        principals=[iam.ServicePrincipal("cloudfront.amazonaws.com")],
        actions=["kms:Decrypt"],
        resources=["*"],
        conditions={"ArnLike": {"aws:SourceArn": distributions}},
    )
