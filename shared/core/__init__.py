"""Base package, which does not use AWS clients: errors, caller, settings, telemetry, limits, field types and regions."""
