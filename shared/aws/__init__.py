"""Access to AWS: DynamoDB tables with their write protocol and paginated lists, streams, S3, SQS and Secrets Manager."""
