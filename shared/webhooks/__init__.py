"""Changes that are sent to the addresses that their followers name."""
