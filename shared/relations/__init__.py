"""What belongs to videos: credits, releases, ratings, playlists, and the title page that shows them together."""
