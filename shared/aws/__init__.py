"""AWS services for the stores: DynamoDB tables, the write protocol, paginated lists, streams, S3, SQS, Secrets Manager."""
