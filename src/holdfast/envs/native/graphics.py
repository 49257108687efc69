# SPDX-License-Identifier: Apache-2.0
"""An OpenGL context wherever there is one: a window system, EGL or OSMesa, tried in turn.

MuJoCo chooses its backend once, when it is imported, from `MUJOCO_GL`. A library cannot ask its
users for that, so the context is made here and only when somebody renders.
"""

import importlib
import os
import sys
import warnings
from typing import Any

REMEDY = (
    "install a software renderer (Debian, Ubuntu: apt-get install libegl1, or libosmesa6) "
    "or set MUJOCO_GL to glfw, egl or osmesa"
)


def candidates() -> tuple[str, ...]:
    """Backends in the order of their promise; `MUJOCO_GL` is the user's word."""
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
    if chosen in ("glfw", "egl", "osmesa", "cgl"):
        return (chosen,)
    if sys.platform == "darwin":
        return ("cgl",)
    if sys.platform != "linux":
        return ("glfw",)
    shown = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return ("glfw", "egl", "osmesa") if shown else ("egl", "osmesa")


def context(width: int, height: int) -> Any:
    """A current OpenGL context of at least this size."""
    reasons: list[str] = []
    for name in candidates():
        try:
            made = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            made.make_current()
        # drivers fail in every way there is: missing libraries, attributes, devices
        except Exception as error:
            reasons.append(f"{name}: {' '.join(str(error).split())[:80] or type(error).__name__}")
            _forget_platform()
        else:
            return made
    raise RuntimeError(
        f"rendering needs OpenGL and no backend could be opened ({'; '.join(reasons)}): {REMEDY}."
    )


def require_display() -> None:
    """Refuse to open a window where there is none to open: the viewer would end the process."""
    try:
        glfw = importlib.import_module("glfw")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = bool(glfw.init())
    except ImportError:
        shown = False
    if not shown:
        raise RuntimeError(
            "render_mode='human' needs a display and none could be opened: "
            "use render_mode='rgb_array', or set DISPLAY."
        )


def _forget_platform() -> None:
    """A failed backend leaves its choice behind, which would keep the next one from loading."""
    if os.environ.get("PYOPENGL_PLATFORM") in ("egl", "osmesa"):
        del os.environ["PYOPENGL_PLATFORM"]
    for name in [name for name in sys.modules if name.split(".")[0] == "OpenGL"]:
        del sys.modules[name]
