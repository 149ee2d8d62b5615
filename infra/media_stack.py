"""The S3 buckets: uploaded source files, generated media, the archive, and its SQL tables."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.encryption import Encryption
from infra.nag import accept
from infra.queue import WorkQueue
from infra.retention import retain
from infra.settings import ANY_ORIGIN, DeploymentSettings
from shared.archive_tables import EXPORTS, RESULTS, STAGED, VIDEOS

PICTURES = "thumbnails/*"
"""Pattern of the thumbnails in the media bucket, which are public. Their keys contain the video's id and a hash."""

RENDITIONS = "renditions/*"
"""Pattern of the renditions in the media bucket. Clients can read renditions only by signed URLs."""
CAPTIONS = "captions/*"
"""Pattern of the caption files in the media bucket. Clients can read caption files only by signed URLs."""
INDEX = "index/*"
"""Pattern of the search index's files in the media bucket. These files are never public."""

RESULT_DAYS = 7
"""Days after which S3 deletes the result of an SQL query."""
EXPORT_DAYS = 1
"""Days after which S3 deletes the files of an export of the table, at the following midnight (UTC)."""
MANUAL_SNAPSHOT_DAYS = 35
"""Days after which S3 deletes a snapshot of videos if the setting `snapshotDays` is 0. The deployment then creates no
snapshots automatically, but an operator can create one with the tools."""

ARRIVALS_TIMEOUT = cdk.Duration.seconds(30)
"""Timeout of the arrivals function. Each message needs one request to S3 and two to DynamoDB."""


class MediaStack(cdk.Stack):
    """Buckets, the arrivals queue and the CDN. The buckets are protected against deletion, except on the local target."""

    def __init__(
        self, scope: Construct, id_: str, *, settings: DeploymentSettings, encryption: Encryption, **kwargs: Any
    ) -> None:
        super().__init__(
            scope,
            id_,
            description="Video metadata: buckets of source files, thumbnails and the audit archive",
            termination_protection=settings.deletion_protection,
            **kwargs,
        )
        self._encryption = encryption
        self.arrivals_queue = WorkQueue(self, "ArrivalsQueue", encryption=encryption, worker_timeout=ARRIVALS_TIMEOUT)
        self.arrivals = self.arrivals_queue.queue
        self.sources = self._sources(settings)
        self.media = self._bucket("Media", settings, cors=_cors(settings))
        self.archive = self._bucket(
            "Archive",
            settings,
            # A replaced object remains as a noncurrent version, and no role of the service can delete versions.
            versioned=True,
            # S3 does not transition objects below 128 KB, because the transition would cost more than it saves.
            transitions=[
                s3.Transition(
                    storage_class=s3.StorageClass.GLACIER_INSTANT_RETRIEVAL, transition_after=cdk.Duration.days(90)
                )
            ],
        )
        # Not versioned, because erasure of a person must leave no earlier version. The archive also has the changes in the SQL tables.
        self.analytics = self._bucket("Analytics", settings, expiring=_analytics_days(settings))
        self.media_url = self._pictures_url(settings)
        self.origins = self._origins(settings)
        """Origins of thumbnail URLs and of signed URLs. The console's page needs permission to connect to these
        origins."""
        outputs = {
            "SourcesBucket": ("Bucket of uploaded source files", self.sources.bucket_name),
            "MediaBucket": ("Bucket of thumbnails and renditions", self.media.bucket_name),
            "ArchiveBucket": ("Bucket of the audit archive and of dropped stream records", self.archive.bucket_name),
            "AnalyticsBucket": ("Bucket of the SQL tables over the archive", self.analytics.bucket_name),
            "MediaUrl": ("Public base URL of thumbnails", self.media_url),
        }
        for name, (description, value) in outputs.items():
            cdk.CfnOutput(self, name, description=description, value=value)

    def _bucket(
        self,
        name: str,
        settings: DeploymentSettings,
        *,
        bucket_name: str | None = None,
        versioned: bool | None = None,
        transitions: list[s3.Transition] | None = None,
        expiring: Mapping[str, int] | None = None,
        cors: list[s3.CorsRule] | None = None,
    ) -> s3.Bucket:
        """Return a bucket. `expiring` maps key prefixes to the number of days after which S3 deletes objects with this
        prefix."""
        key = self._encryption.data
        bucket = s3.Bucket(
            self,
            name,
            bucket_name=bucket_name,
            versioned=versioned,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            # S3 then requests a bucket key from KMS from time to time, instead of a key for each object.
            bucket_key_enabled=True if key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            cors=cors,
            lifecycle_rules=[
                # Parts of an incomplete upload are billed, but object listings do not show them. A test compares the
                # days with UPLOAD_DAYS of shared/processing/uploads.py.
                s3.LifecycleRule(
                    id="Tidy",
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(2),
                    transitions=transitions,
                ),
                *(
                    s3.LifecycleRule(
                        id=prefix.strip("/").capitalize(), prefix=prefix, expiration=cdk.Duration.days(days)
                    )
                    for prefix, days in (expiring or {}).items()
                ),
            ],
        )
        # CloudFormation cannot delete a bucket that contains objects, and this stack empties no bucket on AWS.
        retain(bucket, settings)
        accept(
            bucket,
            rule="AwsSolutions-S1",
            reason="The audit trail records who changed each object. S3 access logs would also store IP addresses.",
        )
        return bucket

    def _sources(self, settings: DeploymentSettings) -> s3.Bucket:
        """Return the bucket for uploads. S3 sends a message to the arrivals queue for each new object.

        S3 sends a test message when the bucket is created. Therefore the queue's policy must exist before the bucket,
        although the policy names the bucket. For this reason, the bucket has a predictable name.
        """
        name = settings.sources_bucket_name
        self.arrivals.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("s3.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.arrivals.queue_arn],
                conditions={
                    "ArnEquals": {"aws:SourceArn": self.format_arn(service="s3", region="", account="", resource=name)},
                    # A separate condition, because a bucket's ARN contains no account id.
                    "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
                },
            )
        )
        sources = self._bucket(
            "Sources",
            settings,
            bucket_name=name,
            # Clients need the ETags of the parts to complete a multipart upload.
            cors=_cors(settings, s3.HttpMethods.PUT, exposed=["ETag"]),
        )
        resource = cast(s3.CfnBucket, sources.node.default_child)
        # Set on the underlying resource, because CDK's own notifications would add a Lambda function.
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=[
                s3.CfnBucket.QueueConfigurationProperty(event="s3:ObjectCreated:*", queue=self.arrivals.queue_arn)
            ]
        )
        sources.node.add_dependency(self.arrivals)
        return sources

    def _origins(self, settings: DeploymentSettings) -> Sequence[str]:
        if settings.endpoint is not None:
            return (settings.endpoint,)
        return (
            self.media_url,
            *(f"https://{bucket.bucket_regional_domain_name}" for bucket in (self.sources, self.media)),
        )

    def _pictures_url(self, settings: DeploymentSettings) -> str:
        """Return the base URL of thumbnails, without a trailing slash."""
        if settings.target == "local":
            return f"{settings.endpoint}/{self.media.bucket_name}"
        return f"https://{self._distribution(settings).distribution_domain_name}"

    def _distribution(self, settings: DeploymentSettings) -> cloudfront.Distribution:
        """Return the CloudFront distribution for thumbnails, the only public access to the media bucket."""
        access = cloudfront.S3OriginAccessControl(
            self,
            "Access",
            origin_access_control_name=_global_name(settings),
            description="Thumbnails in the media bucket",
        )
        distribution = cloudfront.Distribution(
            self,
            "Pictures",
            comment=f"{settings.stack_name('Media')}: posters and storyboards",
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            default_behavior=cloudfront.BehaviorOptions(
                # CDK's default bucket policy is not used, because it would allow reads of the whole bucket.
                origin=origins.S3BucketOrigin.with_bucket_defaults(
                    self.media, origin_access_control_id=access.origin_access_control_id
                ),
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
                allowed_methods=cloudfront.AllowedMethods.ALLOW_GET_HEAD_OPTIONS,
                compress=True,
                cache_policy=cloudfront.CachePolicy(
                    self,
                    "Caching",
                    comment="Thumbnails never change. A day after a video is purged, no edge cache has its thumbnails.",
                    default_ttl=cdk.Duration.days(1),
                    max_ttl=cdk.Duration.days(1),
                    min_ttl=cdk.Duration.seconds(0),
                    enable_accept_encoding_brotli=True,
                    enable_accept_encoding_gzip=True,
                ),
                response_headers_policy=self._headers(settings),
            ),
        )
        self.media.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudfront.amazonaws.com")],
                actions=["s3:GetObject"],
                resources=[self.media.arn_for_objects(PICTURES)],
                conditions={"StringEquals": {"AWS:SourceArn": distribution.distribution_arn}},
            )
        )
        reasons = {
            "AwsSolutions-CFR1": "The service checks which regions may see a video. CloudFront needs no geographic restriction.",
            "AwsSolutions-CFR2": "The distribution only serves static images and runs no code that a firewall could protect.",
            "AwsSolutions-CFR3": "Access logs would store IP addresses. CloudFront's metrics are enough to see the load.",
            "AwsSolutions-CFR4": "CloudFront's default certificate does not allow a minimum TLS version. "
            "A deployment with its own domain and certificate can set TLS 1.2 here.",
        }
        for rule, reason in reasons.items():
            accept(distribution, rule=rule, reason=reason)
        return distribution

    def _headers(self, settings: DeploymentSettings) -> cloudfront.ResponseHeadersPolicy:
        """Return the policy for response headers. The CORS headers allow web players of permitted sites to read
        storyboards.

        The policy does not set `Cache-Control`, because the header would also apply to errors. Each object has its own
        `Cache-Control`.
        """
        return cloudfront.ResponseHeadersPolicy(
            self,
            "Headers",
            response_headers_policy_name=_global_name(settings),
            comment="Video metadata: thumbnails for web players",
            security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
                content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True)
            ),
            cors_behavior=cloudfront.ResponseHeadersCorsBehavior(
                access_control_allow_credentials=False,
                access_control_allow_headers=["*"],
                access_control_allow_methods=["GET", "HEAD"],
                access_control_allow_origins=_sites(settings),
                access_control_max_age=cdk.Duration.days(1),
                origin_override=True,
            ),
        )


def _analytics_days(settings: DeploymentSettings) -> Mapping[str, int]:
    """Return the days after which S3 deletes the objects below each prefix of the analytics bucket."""
    return {
        RESULTS: RESULT_DAYS,
        EXPORTS: EXPORT_DAYS,
        STAGED: EXPORT_DAYS,
        VIDEOS.prefix: settings.snapshot_days or MANUAL_SNAPSHOT_DAYS,
    }


def _sites(settings: DeploymentSettings) -> list[str]:
    """Return the origins that CORS allows: the configured origins, and the console's.

    The console has the API's origin, which is unknown when the buckets are created. The rules therefore allow all APIs
    of the region. This adds no access, because thumbnails are public and all other URLs are signed. With a custom
    domain, add the console's origin to the configured origins.
    """
    if settings.endpoint is not None or ANY_ORIGIN in settings.allow_origins:
        return list(settings.allow_origins)
    return [*settings.allow_origins, f"https://*.execute-api.{cdk.Aws.REGION}.{cdk.Aws.URL_SUFFIX}"]


def _cors(settings: DeploymentSettings, *more: s3.HttpMethods, exposed: Sequence[str] = ()) -> list[s3.CorsRule] | None:
    """Return the CORS rules for signed URLs: reads, and the methods in `more`."""
    sites = _sites(settings)
    if not sites:
        return None
    return [
        s3.CorsRule(
            allowed_methods=[s3.HttpMethods.GET, s3.HttpMethods.HEAD, *more],
            allowed_origins=sites,
            allowed_headers=["*"],
            # Players that request ranges read the object's size from these headers.
            exposed_headers=["Accept-Ranges", "Content-Length", "Content-Range", *exposed],
            max_age=3600,
        )
    ]


def _global_name(settings: DeploymentSettings) -> str:
    """Return a name that contains the region, for a CloudFront resource.

    CloudFront is a global service, so deployments in two regions need different names.
    """
    return f"{settings.stack_name('Media')}-{cdk.Aws.REGION}"
