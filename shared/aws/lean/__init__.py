"""Small AWS client for functions whose callers wait for a cold start. It needs neither botocore nor this service.

`Client` has an example.

Implements (client.py, signing.py, connections.py):

- Signature Version 4 for one form of request: POST to `/` without a query string, with the whole body signed. Credentials may
  have a session token. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
- AWS's JSON protocols 1.0 and 1.1: the operation in `X-Amz-Target`, parameters and results as AWS documents them. Binary
  values are sent as base64, and returned as base64. https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
- HTTP/1.1 with persistent connections, bodies by length or in chunks, and the CRC-32 checksum that DynamoDB sends.
- TLS, verified by `AWS_CA_BUNDLE`, by Amazon's root certificates for `amazonaws.com`, or by the system's.
- Endpoint, region and credentials from the environment; other credentials by botocore's chain, loaded at the first request.

The caller is responsible for retries, validation of parameters, pagination, waiters, and the interpretation of errors.

Creating a client raises Unsupported for proxies, FIPS and dual-stack endpoints, and ignored endpoint settings. It does so also for
regions outside the partitions `aws` and `aws-us-gov` without an explicit endpoint. boto3 supports all of these.

`tests/unit/test_client.py` sends the same requests through botocore over a loopback socket. It compares signatures, bodies,
results and errors, and breaks responses off at each byte.
"""
