"""OpenAPI document of the API. Each module documents operations of one Lambda function."""
