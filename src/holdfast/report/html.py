# SPDX-License-Identifier: Apache-2.0
"""One self-contained page: markup, style, script and data in one file that needs no network."""

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

SCRIPTS = ("stats.js", "charts.js", "page.js")


def write_page(out: Path, data: dict[str, Any]) -> Path:
    """Write `report.html` under `out`; the file appears whole or not at all."""
    page = files("holdfast.report") / "page"
    scripts = "\n".join((page / name).read_text("utf-8") for name in SCRIPTS)
    parts = {
        "@TITLE@": html.escape(str(data["title"])),
        "@STYLE@": (page / "page.css").read_text("utf-8"),
        # Inside a script element only "<" could end the data early.
        "@DATA@": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "@SCRIPT@": f'(() => {{\n"use strict";\n{scripts}\n}})();',
    }
    text = (page / "page.html").read_text("utf-8")
    pieces: list[str] = []
    for line in text.splitlines(keepends=True):
        for mark, part in parts.items():
            if mark in line:
                before, _, after = line.partition(mark)
                line = before + part + after.replace(mark, part)
                break
        pieces.append(line)
    target = out / "report.html"
    fresh = target.with_suffix(".part")
    fresh.write_text("".join(pieces), "utf-8")
    fresh.replace(target)
    return target
