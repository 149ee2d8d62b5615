"""Costs of the service on AWS, computed from the requests that it sends: `python -m bench.cost`, or `make cost`.

Runs each request of the access-pattern table in process, and applies DynamoDB's published rules to the requests and
the stored items. No AWS account is used.
"""
