"""What everything uses: errors, the caller, settings, logs, limits, types of fields, regions."""
