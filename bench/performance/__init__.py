"""What requests cost in processor time, next to what else one would use: `python -m bench.performance`."""
