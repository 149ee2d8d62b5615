"""Local transcoding to a smaller rendition. On AWS, an external transcoder does this."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.container import OutputContainer
from av.stream import Discard
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.frames import EXACT, image
from shared.media.ladder import most_bits
from shared.media.source import FileSource, Source
from shared.media.source_video import SourceVideo, open_video

CODEC = "libx264"
QUALITY = {"preset": "veryfast", "crf": "23"}
"""Options of the encoder: speed, and constant quality (lower is better)."""
TIME_BASE = Fraction(1, 90_000)
"""Seconds per unit of a timestamp in the output."""
KEYFRAME_SECONDS = 2
"""Maximum seconds between two keyframes."""
SOUND_RATE = 48_000
"""Audio samples per second."""
SOUND_BITS = 128_000
"""Maximum bits per second of the audio."""
MIN_BITS = 200_000
"""Smallest bit-rate limit of a rendition, in bits per second. It applies even if the source has a lower bit rate,
because a lower limit would save few bytes and cost much quality."""


def transcode(
    source: Source | Path | str, target: Path | str, *, width: int, height: int, progress: Callable[[int], None]
) -> None:
    """Write a rendition of `width` x `height` pixels, both even, as a progressive-download MP4 (H.264 and AAC).

    The rendition is upright, with square pixels and SDR colours. The maximum bit rate is the lower of
    `ladder.most_bits` and the bit rate of the source, but at least MIN_BITS.

    Calls `progress` for every packet with the percentage done, and with 100 at the end. An exception of `progress`
    stops the work. If this function raises an error, it deletes the target. Raises UnreadableVideo if the source is
    invalid.
    """
    target = Path(target)
    try:
        with open_video(FileSource(source) if isinstance(source, Path | str) else source) as source_video:
            _write(source_video, target, (width, height), progress)
        progress(100)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _write(source_video: SourceVideo, target: Path, size: tuple[int, int], progress: Callable[[int], None]) -> None:
    with av.open(str(target), "w", format="mp4", options={"movflags": "faststart"}) as output:
        duration = (source_video.container.duration or 0) // 1000
        bits = most_bits(*size)
        if duration > 0:
            bits = min(bits, source_video.file.size * 8000 // duration)
        bits = max(MIN_BITS, bits)
        # An audio stream without a sample rate cannot be decoded, because the track is empty.
        sounds = [
            stream for stream in source_video.container.streams.audio if stream.codec_context and stream.sample_rate
        ]
        sound_bits = min(SOUND_BITS, bits // 4) if sounds else 0
        video = _video(output, source_video, size, bits - sound_bits)
        sound = output.add_stream("aac", rate=SOUND_RATE, layout="stereo", bit_rate=sound_bits) if sounds else None
        resampler = AudioResampler("fltp", "stereo", SOUND_RATE)
        if sounds:
            sounds[0].discard = Discard.none
        done, last, pictures = 0, -1, 0
        for packet in source_video.container.demux(source_video.video, *sounds[:1]):
            progress(done)
            try:
                frames = packet.decode()
            except av.FFmpegError:
                continue  # damaged packets are skipped, as in players
            for frame in frames:
                if isinstance(frame, VideoFrame) and frame.pts is not None:
                    scaled = _scaled(source_video, frame, size)
                    # The muxer fails on two frames with the same time.
                    if scaled.pts is None or scaled.pts <= last:
                        continue
                    last, pictures = scaled.pts, pictures + 1
                    output.mux(video.encode(scaled))
                    done = max(done, min(99, source_video.milliseconds(frame.pts) * 100 // duration)) if duration else 0
                elif isinstance(frame, AudioFrame) and sound is not None and frame.pts is not None:
                    # MPEG streams may begin at any time, but the times of the output must start at 0.
                    frame.pts = round(source_video.seconds(frame.pts, frame.time_base) / (frame.time_base or TIME_BASE))
                    for samples in resampler.resample(frame):
                        output.mux(sound.encode(samples))
        if not pictures:
            raise UnreadableVideo(errors.NO_FRAME)
        output.mux(video.encode())
        if sound is not None:
            for samples in resampler.resample(None):
                output.mux(sound.encode(samples))
            output.mux(sound.encode())


def _video(output: OutputContainer, source_video: SourceVideo, size: tuple[int, int], bits: int) -> VideoStream:
    rate = source_video.video.average_rate or Fraction(25)
    video = output.add_stream(CODEC, rate=min(Fraction(120), max(Fraction(1), rate)))
    if not isinstance(video, VideoStream):
        raise TypeError(CODEC)
    video.width, video.height = size
    video.pix_fmt = "yuv420p"
    context = video.codec_context
    # The output has the source's timestamps, because the frame rate of the source may vary.
    context.time_base = TIME_BASE
    context.gop_size = round(KEYFRAME_SECONDS * float(rate))
    # The quality is constant up to this rate, so simple content uses fewer bits. The buffer has one second of bits.
    context.options = QUALITY | {"maxrate": str(bits), "bufsize": str(bits)}
    context.color_range, context.colorspace, context.color_primaries, context.color_trc = 1, 1, 1, 1
    return video


def _scaled(source_video: SourceVideo, frame: VideoFrame, size: tuple[int, int]) -> VideoFrame:
    shown = source_video.shape(frame)
    picture: VideoFrame = VideoFrame.from_image(image(frame, shown, size))  # type: ignore[no-untyped-call]  # PyAV's stub
    scaled = picture.reformat(
        format="yuv420p",
        dst_colorspace=1,
        src_color_range=2,
        dst_color_range=1,
        interpolation=EXACT | Interpolation.AREA,
    )
    if frame.pts is not None:
        scaled.pts = round(source_video.seconds(frame.pts) / TIME_BASE)
    scaled.time_base = TIME_BASE
    return scaled
