"""Webhooks: delivery of changes to the URLs of subscribers."""
