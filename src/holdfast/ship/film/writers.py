# SPDX-License-Identifier: Apache-2.0
"""Write frames into a GIF (by Pillow) or an MP4 (by ffmpeg), one at a time, as a whole episode may
not fit in memory.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from holdfast.files import write_atomic
from holdfast.process import pip_install

COLOURS = 128
KINDS = (".gif", ".mp4")


def write_video(target: Path, frames: Iterable[Image.Image], fps: int) -> None:
    """Write a video in the format of the suffix of `target`, atomically."""
    make = {".gif": gif, ".mp4": mp4}[target.suffix]
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, target.name)
        make(draft, iter(frames), fps)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, draft.read_bytes())


def gif(target: Path, frames: Iterator[Image.Image], fps: int) -> None:
    few = lambda frame: frame.quantize(
        COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    first = few(next(frames))
    first.save(
        target, save_all=True, append_images=map(few, frames), duration=round(1000 / fps), loop=0
    )


def mp4(target: Path, frames: Iterator[Image.Image], fps: int) -> None:
    first = next(frames)
    size = f"{first.width}x{first.height}"
    command = [
        find_ffmpeg(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24",
        "-s", size, "-r", str(fps), "-i", "-", "-an", "-c:v", "libx264", "-pix_fmt", "yuv420p",
        "-movflags", "+faststart", "-crf", "23", str(target),
    ]  # fmt: skip
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=output)
        assert process.stdin is not None
        try:
            process.stdin.write(np.asarray(first).tobytes())
            for frame in frames:
                process.stdin.write(np.asarray(frame).tobytes())
        except BrokenPipeError:
            pass  # ffmpeg has ended; its output has the reason
        finally:
            process.stdin.close()
            code = process.wait()
        if code:
            output.seek(0)
            reason = output.read().decode(errors="replace").strip()[-300:]
            raise RuntimeError(f"ffmpeg could not write the video: {reason}; write a .gif instead.")


def find_ffmpeg() -> str:
    """The ffmpeg of the extra `video`, else the system's."""
    try:
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        found = shutil.which("ffmpeg")
    if found is None:
        raise RuntimeError(
            f"an MP4 needs ffmpeg, which is not installed: run `{pip_install('video')}`, or write "
            "a GIF "
            "(-o episode.gif)."
        )
    return found
