# SPDX-License-Identifier: Apache-2.0
"""Check the prose of pages, docstrings and errors: no sentence over 30 words, no banned phrase.

python .ci/sentences.py [FILE ...]

It reads the Markdown pages, the docstrings of the package, and the texts of its errors and
warnings. It leaves out code, generated blocks and mathematics. A piece of inline code, a formula, a
link's address or a value in an error counts as one word; a cell of a table, an item of a list and a
heading end a sentence. An error is value, reason and remedy in one sentence, so it may have more
words.
"""

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 30
LONGEST_ERROR = 45
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
EDITED_APART = ("docs/holding.md", "docs/default.md", "docs/generated")
"""Pages that this check does not read yet, or that are written at build time."""
REGISTER = "src/holdfast/register.py"
MODULES = "src/holdfast/**/*.py"
HELP = (
    "src/holdfast/settings.py",
    "src/holdfast/run/fields.py",
    REGISTER,
    "src/holdfast/algorithms/*.py",
    "src/holdfast/cli/*.py",
    "src/holdfast/core/critic.py",
    "src/holdfast/core/first_order.py",
    "src/holdfast/core/multiplier.py",
    "src/holdfast/core/trust_region.py",
)
"""Modules whose docstrings become help."""

BANNED: dict[str, str] = {
    r"\b(?:says?|said|tells?|telling|told|speaks?|spoken)\b": "data do not speak: write shows, "
    "contains, lists, records, reports, or distinguishes",
    r"\b(?:loudly|loudness|quietly)\b": "name the settings of the log",
    r"\b(?:lands|landed)\b": "write: enters its final cost-repair phase",
    r"\bfits no\b": "write: does not fit in",
    r"\b(?:fate|foretold|foretells?)\b": "write: exit reason, predicted, predicts",
    r"\bfor the worse\b": "write: that raises the cost",
    r"\bone's own\b": "write: your own",
    r"\bwhat bec(?:omes?|ame) of\b": "name the result",
    r"\bnow and then\b": "write: from time to time",
    r"\b[Ww]hoever\b": "name the subject",
    r"\b[Ww]hat (?:is|was|has been) (?:told|asked|gone|left|said|handed)\b": "name the thing: the "
    "answer, the request, the rest",
    r"\bas (?:one|it|they) likes?\b": "write: freely, or optional",
}
"""Phrase, as a regular expression → what to write instead."""
CODES = {r"\bD\d+\b": "a code of the deviation register: name the setting"}
"""The same for help, where no table explains the codes."""


@dataclass(frozen=True)
class Fault:
    """A sentence that breaks the rule."""

    place: str
    reason: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}\n    {self.sentence}"


FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.S | re.M)
GENERATED = re.compile(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", re.S)
HIDDEN = re.compile(r"<!--.*?-->|^\$\$.*?^\$\$|^---\n.*?^---$", re.S | re.M)
BORDER = re.compile(r"^ *(?:$|[-*+] |\d+\. |#+ |\||>|</?\w|\(\w[^)]*\)=)")
CLOSING = re.compile(r"(?<=[.!?])[\"'*_)\]”]*(?:\s+|$)")
SHORT = re.compile(r"\b(?:e\.g|i\.e|cf|vs|etc|resp|Prop|Thm|Sec|Fig|Eq|App|no|ca|al|approx)\.")


def words(sentence: str) -> int:
    """The number of words with a letter; numbers and signs do not count."""
    return sum(any(letter.isalpha() for letter in word) for word in sentence.split())


def blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with every match replaced by as many empty lines."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def plain(text: str) -> str:
    """The text without addresses of links; a piece of code and a formula are one word each."""
    text = re.sub(r"(`+).+?\1", "`x`", text)
    text = re.sub(r"!?\[([^\]]*)\]\((?:[^()]|\([^()]*\))*\)(?:\{[^}]*\})?", r"\1", text)
    text = re.sub(r"\$[^$\n]+\$", "X", text)
    return SHORT.sub(lambda found: found[0][:-1], text)


def sentences(text: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """The sentences of Markdown, each with its line."""
    for pattern in (FENCE, GENERATED, HIDDEN):
        text = blank(pattern, text)
    block: list[str] = []
    start = first_line
    for number, line in enumerate([*text.splitlines(), ""], first_line):
        if not block and line.startswith("    "):  # indented code
            continue
        if BORDER.match(line):
            yield from ((start, found) for found in _split(" ".join(block)))
            block = []
        if line.lstrip().startswith(("|", "#")):  # cells of a table, a heading
            for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "`x`", line)):
                yield from ((number, found) for found in _split(cell))
            continue
        if not line.strip():
            continue
        if not block:
            start = number
        block.append(line.strip())


def _split(text: str) -> Iterator[str]:
    for sentence in CLOSING.split(plain(text)):
        if sentence.strip():
            yield sentence.strip()


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, of its classes, functions and fields, each with its line."""
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, inspect.cleandoc(value.value)


def messages(source: str) -> Iterator[tuple[int, str]]:
    """The texts of a module's errors and warnings, each with its line; a value is `x`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Raise(exc=ast.Call(args=args)):
                pass
            case ast.Call(func=ast.Attribute(attr="warn" | "warning"), args=args):
                pass
            case _:
                continue
        for text in args:
            if isinstance(text, ast.JoinedStr):
                yield text.lineno, "".join(_shown(part) for part in text.values)
            elif isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.lineno, text.value


def lost(source: str) -> Iterator[tuple[int, str]]:
    """Second halves of texts that lack their parentheses, so that nothing uses them."""
    for node in ast.walk(ast.parse(source)):
        body: object = getattr(node, "body", None)
        for first, second in itertools.pairwise(body if isinstance(body, list) else ()):
            if not (isinstance(second, ast.Expr) and _is_text(second.value)):
                continue
            value = getattr(first, "value", None)
            cut = isinstance(value, ast.Constant) and str(value.value).endswith(" ")
            if isinstance(first, ast.Return) or cut:
                yield second.lineno, ast.unparse(second)


def _is_text(node: ast.expr) -> bool:
    plain = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return plain or isinstance(node, ast.JoinedStr)


def _shown(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "`x`"


def faults(place: str, text: str) -> list[Fault]:
    """The faults of a page, or of a module's docstrings and errors."""
    if not place.endswith(".py"):
        return _faults(place, sentences(text), LONGEST, BANNED)
    help_text = place != REGISTER and any(Path(place).match(pattern) for pattern in HELP)
    docs = [found for line, part in docstrings(text) for found in sentences(part, line)]
    errors = [(line, found) for line, part in messages(text) for found in _split(part)]
    banned = BANNED | (CODES if help_text else {})
    cut = [
        Fault(f"{place}:{line}", "add parentheses: it is cut", part) for line, part in lost(text)
    ]
    long_docs = _faults(place, docs, LONGEST, banned)
    return [*cut, *long_docs, *_faults(place, errors, LONGEST_ERROR, BANNED)]


def _faults(
    place: str, found: Iterable[tuple[int, str]], longest: int, banned: dict[str, str]
) -> list[Fault]:
    wrong: list[Fault] = []
    for line, sentence in found:
        count = words(sentence)
        if count > longest:
            wrong.append(Fault(f"{place}:{line}", f"{count} words", sentence))
        for phrase, instead in banned.items():
            if re.search(phrase, sentence):
                wrong.append(Fault(f"{place}:{line}", instead, sentence))
    return wrong


def checked() -> list[Path]:
    """The files that must pass."""
    pages = [page for pattern in (*PAGES, MODULES) for page in sorted(ROOT.glob(pattern))]
    names = [str(page.relative_to(ROOT)) for page in pages]
    return [
        page for page, name in zip(pages, names, strict=True) if not name.startswith(EDITED_APART)
    ]


if __name__ == "__main__":
    files = [Path(name).resolve() for name in sys.argv[1:]] or checked()
    found = [
        fault for file in files for fault in faults(str(file.relative_to(ROOT)), file.read_text())
    ]
    if found:
        print(*found, sep="\n", flush=True)
        raise SystemExit(f"{len(found)} sentences to rewrite.")
