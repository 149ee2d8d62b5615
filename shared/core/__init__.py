"""Base package that all others import, without AWS clients: errors, caller, settings, telemetry, limits, field types, regions."""
