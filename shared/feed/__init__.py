"""Changes go out: what followers are told of each, the logs that keep them, and reading on from a cursor."""
