"""Video history: the audit trail, earlier versions, change sets and reverts."""
