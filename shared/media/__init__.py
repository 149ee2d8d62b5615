"""Decoding of video files: probing, thumbnails, subtitles and smaller renditions. Independent of AWS."""
