"""Related items of videos: credits, releases, ratings, playlists, and the title page that combines them."""
