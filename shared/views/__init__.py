"""Views: counting rules, history by hour and day, and rankings of the most viewed videos."""
