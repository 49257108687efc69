# SPDX-License-Identifier: Apache-2.0
"""What the documentation site is made of: the reference, curves of kept runs, links, navigation."""

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.algorithms import ALGORITHMS
from holdfast.cli import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "generated" not in page.parts]
sys.path.insert(0, str(DOCS))

import building  # noqa: E402
from building import evidence, pages, reference  # noqa: E402


def module(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem + "_check", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def helps():
    """Command → what its --help says."""
    found = {}
    for name, command in COMMANDS.items():
        found[name] = reference.help_of(command.call, [*extra(name, "c-trpo"), "--help"])
    return found


def extra(command, algorithm):
    return [algorithm, "ENV"] if command == "train" else []


def test_the_reference_names_every_command_and_every_public_name(helps):
    text = reference.commands()
    for name in COMMANDS:
        assert f"\n## {name}\n" in text and helps[name] in text
        assert "usage" in helps[name].lower() and "--help" in helps[name], name
    text = reference.python()
    for name in holdfast.__all__:
        assert f"\n### {name}\n" in text, name
    assert "#### Agent.learn" in text and 'algorithm: str | Algorithm = "c-trpo"' not in text
    assert "algorithm: str | Algorithm = 'c-trpo'" in text
    assert "None of" not in text and "<factory>" not in text


@pytest.mark.parametrize("name", ["c-trpo", "cpo", "p3o"])
def test_settings_of_a_page_are_those_of_the_code(name):
    from holdfast.run import make_run, preset_changes
    from holdfast.settings import leaves

    text = reference.settings_of(name)
    run = make_run(name)
    own = [leaf for leaf in leaves(run) if leaf.path.startswith("algorithm.")]
    assert own
    for leaf in own:
        assert f"| `--{leaf.name.replace('_', '-')}` | `{leaf.value}` |" in text, leaf
    changed = {k: v for k, v in preset_changes(run, "published").items()}
    known = {leaf.path: leaf.value for leaf in leaves(run)}
    for path, value in changed.items():
        if value != known[path]:
            flag = path.rpartition(".")[2].replace("_", "-")
            assert re.search(rf"\| `--{flag}` \| `[^|]*` \| `{re.escape(str(value))}` \|", text)


def test_every_algorithm_has_a_page_or_is_a_variant_of_one():
    variants = {name for names in evidence.VARIANTS.values() for name in names}
    for name in ALGORITHMS:
        assert (DOCS / "algorithms" / f"{name}.md").exists() != (name in variants), name


def copy_of_runs(target):
    """Two kept runs of results/, one of them under another algorithm's name."""
    import shutil

    first = sorted((ROOT / "results" / "ours").glob("*HalfCheetah*/run.json"))[0].parent
    shutil.copytree(first, target / "ours" / "one")
    shutil.copytree(first, target / "other" / "two")
    config = target / "other" / "two" / "run.json"
    config.write_text(config.read_text().replace('"name": "c-trpo"', '"name": "c-npg"'))
    return target


def with_another_seed(folder):
    import shutil

    shutil.copytree(folder / "one", folder / "another")
    config = folder / "another" / "run.json"
    text = re.sub(r'"seed": \d+', '"seed": 99', config.read_text())
    config.write_text(text)
    return folder


def test_curves_follow_from_results(tmp_path):
    files = evidence.draw(copy_of_runs(tmp_path / "results"), tmp_path / "curves")
    names = {file.name for file in files}
    task = "HalfCheetahVelocity"
    wanted = {f"c-trpo_ours_{task}_cost_dark.svg", f"c-npg_other_{task}_reward_light.svg"}
    assert wanted <= names
    page = evidence.curves("c-trpo", tmp_path / "curves")
    assert "results/ours" in page and page.count(".svg") == 6 and "results/other" not in page
    for suite in ("holding", "ours-long"):
        for file in sorted((tmp_path / "curves").glob("c-trpo_ours_*")):
            (file.parent / file.name.replace("ours", suite)).write_bytes(file.read_bytes())
    page = evidence.curves("c-trpo", tmp_path / "curves")  # held-out seeds before chosen-on ones
    places = [page.index(f"`results/{suite}`, ") for suite in ("ours", "ours-long", "holding")]
    assert places == sorted(places) and page.count("chosen on") == 2
    none = evidence.curves("cpo", tmp_path / "curves")  # of which there are no runs
    assert "No run" in none and ".svg" not in none
    table = evidence.table(tmp_path / "results" / "ours")
    assert len(table.splitlines()) == 3 and "<small>" not in table  # one seed has no interval
    assert "<small>" in evidence.table(with_another_seed(tmp_path / "results" / "ours"))
    assert "No finished runs" in evidence.table(tmp_path / "results" / "never")
    old = tmp_path / "curves" / "p3o_gone_Task_cost_light.svg"
    old.write_text("of runs that were taken away")
    evidence.draw(tmp_path / "results", tmp_path / "curves")
    assert not old.exists()


@pytest.mark.parametrize("name", sorted(p.stem for p in DOCS.glob("algorithms/[!R]*.md")))
def test_a_page_without_runs_names_a_command_that_selects_some(name):
    from holdfast.bench.suite import cells, load_suite
    from holdfast.run import make_run

    _, verb, what, *rest = shlex.split(evidence.command(name))
    if verb == "train":
        assert name not in ("sb-trpo", "cspo", "ppo") and make_run(what, env=rest[0]).name == name
    else:
        flag, pattern = rest
        suite = load_suite(ROOT / what if what.endswith(".toml") else what)
        assert flag == "--only" and {c.run.name for c in cells(suite, [pattern])} == {name}


def test_an_algorithm_page_gets_its_curve_and_its_settings(tmp_path, monkeypatch):
    evidence.draw(copy_of_runs(tmp_path / "results"), tmp_path / "curves")
    monkeypatch.setattr(building, "GENERATED", tmp_path)
    text = (DOCS / "algorithms" / "c-trpo.md").read_text()
    shown = building.adapted("algorithms/c-trpo", text)
    headings = [f"\n## {words}" for words in ("Use it", "Curves", "What", "Settings")]
    places = [shown.index(heading) for heading in headings]
    assert places == sorted(places)
    assert building.adapted("verdict", "no change") == "no change"


@pytest.mark.parametrize("name", sorted(p.stem for p in DOCS.glob("algorithms/[!R]*.md")))
def test_the_usage_of_a_page_is_valid(name, helps):
    from holdfast.run import make_run

    shown = reference.usage_of(name)
    lines = [line for line in shown.splitlines() if line.startswith("holdfast ")]
    assert len(lines) == 2 and not [flag for ln in lines for flag in unknown_flags(ln, helps)]
    assert f'Agent("{name}")' in shown and make_run(name, cost_limit=6.0).name == name


def test_indices_are_set_in_sentences_only():
    text = "J_c and π_k, A_i / b_i.\n`J_c`, [b_i](a_b.md) cost_limit a_file\n\n```math\nJ_c\n```\n"
    assert pages.subscripts(text) == (
        "J<sub>c</sub> and π<sub>k</sub>, A<sub>i</sub> / b<sub>i</sub>.\n"
        "`J_c`, [b<sub>i</sub>](a_b.md) cost_limit a_file\n\n```math\nJ_c\n```\n"
    )


def test_formulas_become_mathml_without_a_network():
    """Every formula of the pages converts, and a wrong one raises."""
    import latex2mathml.converter
    from latex2mathml.exceptions import MissingEndError

    blocks = [b for page in PAGES for b in re.findall(r"```math\n(.*?)```", page.read_text(), re.S)]
    assert len(blocks) > 15
    for block in blocks:
        made = latex2mathml.converter.convert(block, display="block")
        assert made.startswith("<math") and "\\" not in made, block
    with pytest.raises(MissingEndError):
        latex2mathml.converter.convert(r"\begin{matrix} a")


def test_links_out_of_docs_lead_inside_the_site():
    text = (
        "[speed](../benchmarks/README.md), [a](b.md#c), [results](../results/ours), [w](https://w)"
    )
    assert pages.relinked(text, "docs/page.md") == (
        "[speed](generated/speed.md), [a](b.md#c), results, [w](https://w)"
    )
    assert pages.relinked("[e](../examples/first_policy.py)", "docs/page.md") == (
        "[e](generated/examples.md)"
    )
    moved = pages.relinked("[v](docs/verdict.md#b)", "README.md", "docs/generated/readme.md")
    assert moved == "[v](../verdict.md#b)"
    for source, name in pages.OUTSIDE.items():
        assert (ROOT / source).exists() and f"generated/{name}\n" in (DOCS / "index.md").read_text()


def test_every_page_is_in_the_navigation():
    listed = (DOCS / "index.md").read_text()
    files = [*PAGES, *DOCS.glob("notebooks/*.ipynb")]
    for page in files:
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        if name != "index" and (page.parent.name != "algorithms" or page.stem == "README"):
            assert f"\n{name}\n" in listed, f"name '{name}' in a toctree of docs/index.md"


def slugs(text):
    """Anchors of the headings, as repository browsers and the site make them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    words = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", w) for w in re.findall(r"^#+ (.*)", plain, re.M)]
    return {re.sub(r"[^\w\- ]", "", word.lower()).replace(" ", "-") for word in words}


def broken_anchors(page, text):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text):
        file = page.parent / target if target else page
        if file.suffix == ".md" and anchor not in slugs(file.read_text()):
            yield f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.stem)
def test_anchors_lead_somewhere(page):
    assert not list(broken_anchors(page, page.read_text()))
    assert list(broken_anchors(page, "[no](#no-such-heading)")) == [
        f"{page.name}: #no-such-heading"
    ]


def unknown_flags(line, helps):
    """What a command line of the docs says that the command does not know."""
    words = shlex.split(line.partition("#")[0])
    words = words[: next((i for i, w in enumerate(words) if w in ("||", "&&", "|")), None)]
    if len(words) < 2 or not words[1].islower():
        return
    if words[1] not in helps:
        yield words[1]
        return
    known = helps[words[1]]
    own = words[1] in ("train", "tune") and len(words) > 2  # tune takes the options of train too
    if own and words[2] in ALGORITHMS:
        known += reference.help_of(COMMANDS["train"].call, [words[2], "ENV", "--help"])
    for word in words[2:]:
        flag = word.partition("=")[0]
        if re.match(r"--?[a-z]", flag) and not re.search(rf"(?<![\w-]){flag}(?![\w-])", known):
            yield flag


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.stem)
def test_commands_in_the_pages_exist(page, helps):
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", page.read_text(), re.S | re.M)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(holdfast [a-z][^`]*)`", page.read_text())
    for line in [*(ln for ln in lines if ln.startswith("holdfast ")), *inline]:
        assert not list(unknown_flags(line, helps)), line


def test_a_wrong_command_would_be_found(helps):
    assert list(unknown_flags("holdfast evaluate RUN --until-bored", helps)) == ["--until-bored"]
    assert list(unknown_flags("holdfast judge RUN", helps)) == ["judge"]
    assert not list(unknown_flags("holdfast evaluate RUN --until-decided  # --not-this", helps))


def test_the_glossary_names_what_is_there():
    code = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    first = (DOCS / "glossary.md").read_text().partition("| word |")[0]
    rows = [row.split("|")[2] for row in first.splitlines() if row.startswith("|")][2:]
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(names) > 30
    for name in names:
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", code), name


@pytest.mark.parametrize("file", sorted(DOCS.glob("notebooks/*.ipynb")), ids=lambda f: f.stem)
def test_notebooks_are_kept_without_outputs(file):
    """The site's build executes them; a stored output would hide one that no longer runs."""
    cells = [c for c in json.loads(file.read_text())["cells"] if c["cell_type"] == "code"]
    assert cells and all(c["outputs"] == [] and c["execution_count"] is None for c in cells)


PAGE = '<html><head><link href="a.css"></head><body id="top">{}</body></html>'


def test_the_site_check_finds_what_is_wrong(tmp_path):
    check = module(ROOT / ".ci" / "site.py")
    (tmp_path / "a.css").write_text("body { color: red }")
    page = tmp_path / "index.html"
    page.write_text(PAGE.format('<a href="#top">up</a> <a href="https://w">out</a>'))
    assert check.faults(tmp_path) == []
    for text, words in {
        '<script src="https://cdn/x.js"></script>': "from a network",
        '<img src="//cdn/x.png">': "from a network",
        '<a href="gone.html">x</a>': "is not there",
        '<iframe src="gone.html"></iframe>': "is not there",
        '<a href="index.html#gone">x</a>': "no such place",
    }.items():
        page.write_text(PAGE.format(text))
        (fault,) = check.faults(tmp_path)
        assert words in fault
    page.write_text(PAGE.format(""))
    (tmp_path / "a.css").write_text("@import 'https://fonts/x.css'; b { background: url(//c/d) }")
    assert len(check.faults(tmp_path)) == 2


def test_the_site_check_opens_pages_in_a_browser(tmp_path):
    """One that is too wide on a phone, one that logs an error, one that has no dark theme."""
    check = module(ROOT / ".ci" / "site.py")
    chromium = check.browser()
    if chromium is None:
        pytest.skip("Chromium is not installed")
    dressed = "<script>document.body.dataset.theme = localStorage.getItem('theme')</script>"
    wide = '<div style="width: 700px">x</div>'
    for name, text in {
        "good": dressed,
        "wide": wide + dressed,
        "loud": "<script>console.error('oh')</script>" + dressed,
        "bare": "<script>document.body.dataset.theme = 'light'</script>",
    }.items():
        (tmp_path / f"{name}.html").write_text(f"<!doctype html>{PAGE.format(text)}")
    assert check.sights(tmp_path, chromium, ["good"]) == []
    found = check.sights(tmp_path, chromium, ["wide"])
    assert len(found) == 2 and all("on a screen of 390" in fault for fault in found)
    found = check.sights(tmp_path, chromium, ["loud"])
    assert len(found) == 4 and all('"oh"' in fault for fault in found)
    assert check.sights(tmp_path, chromium, ["bare"]) == ["bare was to be dark and is light."] * 2
