# SPDX-License-Identifier: Apache-2.0
"""The colours of all figures and pages."""

from collections.abc import Mapping, Sequence

LIGHT = {
    "bg": "#fbfaf8",
    "card": "#fff",
    "ink": "#1d2330",
    "soft": "#5c6475",
    "line": "#e4e1da",
    "grid": "#eeebe5",
    "accent": "#0b6fb3",
    "safe": "#1a8754",
    "undecided": "#8a5a00",
    "partly": "#0b6fb3",
    "unsafe": "#c2410c",
    "shade": "#c2410c12",
    "chip": "#f1eee8",
    "shadow": "0 1px 2px #0000000a,0 4px 16px #0000000a",
}
DARK = {
    "bg": "#11141a",
    "card": "#191d25",
    "ink": "#e8eaf0",
    "soft": "#9aa3b5",
    "line": "#2b313d",
    "grid": "#232935",
    "accent": "#5db4f0",
    "safe": "#4cc38a",
    "undecided": "#e3b341",
    "partly": "#5db4f0",
    "unsafe": "#fb8c5a",
    "shade": "#fb8c5a14",
    "chip": "#232935",
    "shadow": "none",
}
METHODS = (
    "#0b6fb3 #d9541e #12946a #b8408f #c78a00 #3aa6dd #6d4bc3 #8a6230 "
    "#0e9aa0 #c9303e #5f8a12 #6b7280 #e0679d #27418f #83b52b #4c4238"
).split()
"""Colours of methods, in turn; on pages `--c0`, `--c1`, ..."""
METHODS_DARK = (
    "#5db4f0 #ff8a5c #46cf9d #ea83c6 #f2bd3f #8fd3fb #ab93f5 #cfa36b "
    "#4fd0d6 #ff7480 #a6d254 #a3abba #ffa3c6 #8aa2f5 #cdee8a #d8cbbb"
).split()

INK, SOFT, LIMIT, SAFE = (LIGHT[name] for name in ("ink", "soft", "unsafe", "safe"))
"""Colours of text, of labels, of limits and violations, and of values within limits."""
GREY = DARK["soft"]
"""Colour of smoothed values and early ends."""
BLUE, GREEN, AMBER, PURPLE, RED = (METHODS[i] for i in (0, 2, 4, 6, 9))
SERIES = (BLUE, GREEN, AMBER, RED, PURPLE)
"""Colours of few curves, in turn."""
CONSTRAINT_INDICES = (0, 2, 6, 4, 8)
CONSTRAINTS = tuple(METHODS[i] for i in CONSTRAINT_INDICES)
"""Colours of constraints, in turn, none of them near that of a limit."""


def page_colours() -> str:
    """CSS variables of both themes; `data-theme` on the page's root overrides the system's."""
    light, dark = _variables(LIGHT, METHODS), _variables(DARK, METHODS_DARK)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f":root[data-theme=dark]{{{dark}}}\n"
    )


def _variables(named: Mapping[str, str], methods: Sequence[str]) -> str:
    all_colours = {**named} | {f"c{i}": colour for i, colour in enumerate(methods)}
    return ";".join(f"--{name}:{colour}" for name, colour in all_colours.items())
