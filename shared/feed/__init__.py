"""Change feed: public change events, the logs that store them, and cursors for reading."""
