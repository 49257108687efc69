# SPDX-License-Identifier: Apache-2.0
"""Check a built site: nothing is loaded from a network, and every link leads somewhere.

Sphinx checks links between pages when it builds; this looks at what a browser will see, with raw
HTML, scripts and styles. `python .ci/site.py build/site`
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

LOADED = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "link": "href",
}
STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """The names, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.add(given[LOADED[tag]])
        if tag == "a" and "href" in given:
            self.links.add(given["href"])


def faults(site: Path) -> list[str]:
    """A sentence for each."""
    pages = {file: Page(file.read_text()) for file in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for file, page in pages.items():
        name = file.relative_to(site)
        away = {url for url in page.loaded if re.match(r"(https?:)?//", url)}
        found += [f"{name} loads {url} from a network." for url in sorted(away)]
        for url in sorted((page.links | page.loaded) - away):
            if not re.match(r"[a-z]+:", url):
                path, _, anchor = unquote(url).partition("#")
                target = (file.parent / path.partition("?")[0]).resolve() if path else file
                if not target.exists():
                    found.append(f"{name} links to {url}, which is not there.")
                elif anchor and target in pages and anchor not in pages[target].names:
                    found.append(f"{name} links to {url}, which has no such place.")
    for file in sorted(site.rglob("*.css")):
        urls = STYLE.findall(file.read_text())
        found += [f"{file.relative_to(site)} loads {url} from a network." for url in urls]
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    found = faults(site)
    print("\n".join(found) or f"{site / 'index.html'}: every link leads somewhere, offline.")
    sys.exit(bool(found))
