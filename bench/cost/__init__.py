"""Costs of the service on AWS, computed from the requests that it sends: `python -m bench.cost`, or `make cost`.

The package runs each request of the access patterns in process. It applies DynamoDB's published rules to the requests
that the service sends, and to the items that it stores. No AWS account is used.
"""
