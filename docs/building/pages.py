# SPDX-License-Identifier: Apache-2.0
"""Links: files of the repository that are pages of the site too, or that it does not have."""

import os.path
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "benchmarks/README.md": "speed",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "examples/README.md": "examples",
    "SECURITY.md": "security",
}
"""File beside docs/ → its page in docs/generated/."""
LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def relinked(text: str, page: str, new: str = "") -> str:
    """Links of a page at `page` of the repository, for a site where that page is at `new`."""

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        there = os.path.normpath(os.path.join(os.path.dirname(page), target))
        if there in OUTSIDE:
            there = f"docs/generated/{OUTSIDE[there]}.md"
        elif there.startswith("examples/"):
            there = "docs/generated/examples.md"  # which shows each of them
        if not there.startswith("docs/"):
            return words  # a file of the repository, not of the site
        return f"[{words}]({os.path.relpath(there, os.path.dirname(new or page))}{anchor})"

    return LINK.sub(link, text)


CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`|\]\([^)]*\)|^#.*$)", re.S | re.M)
INDEX = re.compile(r"(?<![\w/_.])([A-Za-zα-ωΑ-Ωĝ])_([A-Za-zα-ω]|old|half)(?![\w_])")


def subscripts(text: str) -> str:
    """J_c in a sentence as J with an index; code, formulas, headings and links stay."""
    parts = CODE.split(text)
    parts[::2] = [INDEX.sub(r"\1<sub>\2</sub>", part) for part in parts[::2]]
    return "".join(parts)


def moved(source: str, new: str) -> str:
    """A file of the repository as the page `new`."""
    return relinked((ROOT / source).read_text(), source, new)


def examples(new: str) -> str:
    """The list of the examples, and each of them in full."""
    parts = [moved("examples/README.md", new)]
    for file in sorted((ROOT / "examples").glob("*.py"), key=lambda f: f.stat().st_size):
        parts.append(f"## {file.name}\n\n```python\n{file.read_text()}```\n")
    return "\n".join(parts)
