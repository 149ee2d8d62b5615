"""Small AWS client that shortens the cold start of HTTP functions, because it loads quickly and does not import
botocore.

It does not depend on other packages of this service. See `Client` for an example.

It implements:

- Signature Version 4 for one form of request: POST to `/` without a query string, with the whole body signed.
  Credentials may have a session token.
  https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
- AWS's JSON protocols 1.0 and 1.1: the operation in `X-Amz-Target`, parameters and results as AWS documents them. The
  client encodes binary parameters as base64, but does not decode binary values in results.
  https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
- HTTP/1.1 with persistent connections, bodies with Content-Length or in chunks, and the CRC-32 checksum that DynamoDB
  sends.
- TLS. The trusted root certificates are those in `AWS_CA_BUNDLE`, else Amazon's for `amazonaws.com`, else the system's.
- Endpoint, region and credentials from the environment. Other credentials come from botocore's chain, loaded at the
  first request.

The caller is responsible for retries, validation of parameters, pagination, waiters, and the interpretation of errors.

Creating a client raises Unsupported if the environment selects a proxy, a FIPS endpoint or a dual-stack endpoint, or
disables configured endpoint URLs. It also raises Unsupported for regions outside the partitions `aws` and `aws-us-gov`,
unless an endpoint is configured. boto3 supports all these settings and regions.

`tests/unit/test_client.py` sends the same requests with this client and with botocore to a local server. It compares
signatures, bodies, results and errors. It also truncates responses at each byte.
"""
