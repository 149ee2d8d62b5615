"""OpenAPI document of the API. Most modules document operations of one Lambda function."""
