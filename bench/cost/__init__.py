"""What the service costs on AWS, worked out from what it really sends: `python -m bench.cost`, or `make cost`.

Each request of the access-pattern table is carried out in process, and DynamoDB's published rules are applied to what
was sent and stored. No AWS account is asked.
"""
