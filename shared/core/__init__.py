"""Base package without AWS clients: errors, caller, settings, telemetry, limits, field types and regions."""
