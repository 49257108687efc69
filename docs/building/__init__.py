# SPDX-License-Identifier: Apache-2.0
"""What the site shows and no page says by hand: the reference, curves of kept runs, the playground.

`write` fills docs/generated/ before a build; `adapted` completes a page while it is read.
"""

from pathlib import Path

from building import evidence, pages, reference

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "generated"


def write(target: Path = GENERATED, results: Path = ROOT / "results") -> None:
    """All generated files."""
    from holdfast.paper.square import page as playground
    from holdfast.report import report

    texts = {
        "commands.md": reference.commands(),
        "python.md": reference.python(),
        "settings.md": reference.settings(),
        "ours.md": evidence.table(results / "ours"),
        "extra/playground.html": playground(),
    }
    texts |= {
        f"{name}.md": pages.moved(source, f"docs/generated/{name}.md")
        for source, name in pages.OUTSIDE.items()
    }
    texts["examples.md"] = pages.examples("docs/generated/examples.md")
    for name, text in texts.items():
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:  # unchanged pages are not built again
            file.write_text(text)
    report([results], target / "extra" / "results", title="The kept runs", figures=False)
    evidence.draw(results, target / "curves")
    (target / "start.md").write_text(
        evidence.shown("start", target / "curves", "generated/curves", "C-TRPO, results/ours")
    )


def adapted(name: str, text: str) -> str:
    """A page as the site shows it: links lead inside it, curves and settings are there."""
    text = pages.relinked(text, f"docs/{name}.md")
    folder, _, algorithm = name.rpartition("/")
    if name == "theory" or folder == "algorithms":
        text = pages.subscripts(text)
    if folder == "algorithms" and algorithm != "README":
        before, heading, after = text.partition("\n## ")
        shown = reference.usage_of(algorithm) + evidence.curves(algorithm, GENERATED / "curves")
        text = before + shown + heading + after + "\n" + reference.settings_of(algorithm)
    if name == "algorithms/README":
        files = sorted((ROOT / "docs" / "algorithms").glob("[!R]*.md"))
        text += "\n```{toctree}\n:hidden:\n\n" + "\n".join(f.stem for f in files) + "\n```\n"
    return text
