"""What a video was, what changed, and taking a change back."""
