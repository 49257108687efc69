# SPDX-License-Identifier: Apache-2.0
"""Check a built site: nothing is loaded from a network, and every link leads somewhere.

Sphinx checks links between pages when it builds; this looks at what a browser will see, with raw
HTML, scripts and styles. Where Chromium is installed it opens some pages on a phone and on a desk:
none may be wider than the screen or log an error. `python .ci/site.py build/site`
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr "
    "--allow-file-access-from-files --virtual-time-budget=60000 --dump-dom"
).split()
SHOWN = ("index", "theory", "holding", "migration/omnisafe")
LOOK = """<body><script>
const look = async (url, width, theme) => {
  localStorage.setItem("theme", theme);
  const frame = Object.assign(document.createElement("iframe"), { src: url, width, height: 900 });
  document.body.replaceChildren(frame);
  await new Promise((done) => (frame.onload = done));
  await new Promise((done) => setTimeout(done, 300));
  const { innerWidth, document: page } = frame.contentWindow;
  return [page.documentElement.scrollWidth, innerWidth, page.body.dataset.theme];
};
(async () => {
  const found = [];
  for (const visit of VISITS) found.push(await look(...visit));
  document.body.dataset.found = JSON.stringify(found);
})();
</script></body>
"""
"""Frames may be narrower than the narrowest window; files may be read by the flag above."""


def browser() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def sights(site: Path, chromium: str, shown: Sequence[str] = SHOWN) -> list[str]:
    """A sentence for each page that is wider than the screen, and for each logged error."""
    visits = [(p, w, theme) for p in shown for w in (390, 1280) for theme in ("light", "dark")]
    urls = [((site / f"{p}.html").as_uri(), w, theme) for p, w, theme in visits]
    with tempfile.TemporaryDirectory() as folder:
        (start := Path(folder) / "look.html").write_text(LOOK.replace("VISITS", json.dumps(urls)))
        command = [chromium, *FLAGS, f"--user-data-dir={folder}/profile", start.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    match = re.search(r'data-found="([^"]*)"', done.stdout)
    if not match:
        return [f"Chromium did not finish looking: {done.stderr[-500:]}"]
    found = [f"A page says: {line}" for line in re.findall(r".*CONSOLE.*", done.stderr)]
    looked = json.loads(html.unescape(match[1]))
    for (page, width, theme), (wide, inner, worn) in zip(visits, looked, strict=True):
        if wide > inner or inner != width:
            found.append(f"{page} is {wide} pixels wide on a screen of {inner} ({theme}).")
        if worn != theme:
            found.append(f"{page} was to be {theme} and is {worn}.")
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    found = faults(site)
    if chromium := browser():
        found += sights(site, chromium)
    else:
        print("Chromium is not installed: widths and errors of pages were not looked at.")
    print("\n".join(found) or f"{site / 'index.html'}: every link leads somewhere, offline.")
    sys.exit(bool(found))
