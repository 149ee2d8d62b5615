"""DynamoDB, S3 and SQS as the stores use them: expressions, the write protocol, lists over indexes, the stream."""
