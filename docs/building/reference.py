# SPDX-License-Identifier: Apache-2.0
"""The reference, from the code: what commands say of themselves, signatures, docstrings, fields."""

import contextlib
import dataclasses
import importlib
import inspect
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

MODULES = (
    "holdfast",
    "holdfast.train",
    "holdfast.judge.evaluate",
    "holdfast.judge.verdict",
    "holdfast.judge.seen_bounds",
    "holdfast.records.statistics",
    "holdfast.judge.perturb",
    "holdfast.envs.native",
    "holdfast.report",
    "holdfast.ship.certify",
    "holdfast.tabular",
)
"""What the pages import from."""


def commands() -> str:
    """A section for each command, with its --help."""
    from holdfast.cli import COMMANDS

    parts = [
        "# Command line",
        "Each command as `holdfast COMMAND --help` shows it. For scripts: exit codes are 0, 2 "
        "where the command was wrong, 130 and 143 where it was stopped; those of `evaluate` are on "
        "the page about [verdicts](../verdict.md#other-conditions).",
    ]
    for name, command in COMMANDS.items():
        arguments = ["c-trpo", "ENV"] if name == "train" else []
        shown = help_of(command.call, [*arguments, "--help"])
        parts += [f"## {name}", f"{sentence(command.summary)}", f"```text\n{shown}\n```"]
        if name == "train":
            parts.append("Flags differ between algorithms: their pages list them.")
    return "\n\n".join(parts) + "\n"


def help_of(call: Any, arguments: list[str]) -> str:
    """What a command prints for these arguments, 88 columns wide and without colours."""
    printed = io.StringIO()
    before = dict(os.environ)
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            call(arguments)
    finally:
        os.environ.clear()
        os.environ.update(before)
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def python() -> str:
    """A section for each module, with its public names."""
    parts = ["# Python reference", "Signatures, docstrings and fields as they stand in the code."]
    for path in MODULES:
        module = importlib.import_module(path)
        parts += [f"## {path}", document(module.__doc__)]
        for name in public(module):
            parts += described(name, getattr(module, name))
    return "\n\n".join(filter(None, parts)) + "\n"


def public(module: ModuleType) -> list[str]:
    """The names that a module offers: its __all__, or the classes and functions it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=lambda name: (name.isupper(), name.lower()))
    own = lambda x: getattr(x, "__module__", "") == module.__name__
    kinds = lambda x: inspect.isclass(x) or inspect.isfunction(x)
    return [n for n, x in vars(module).items() if n[0] != "_" and kinds(x) and own(x)]


def described(name: str, thing: Any) -> list[str]:
    """Heading, signature, docstring, fields and methods."""
    parts = [f"### {name}"]
    if not callable(thing):
        keys = ", ".join(f"`{key}`" for key in thing) if isinstance(thing, Mapping) else ""
        return [*parts, f"A table with {keys}." if keys else ""]
    if not inspect.isclass(thing):
        return [*parts, signature(name, thing), document(thing.__doc__)]
    made = not issubclass(thing, Exception) and not getattr(thing, "_is_protocol", False)
    parts += [signature(name, thing) if made else "", document(thing.__doc__)]
    if dataclasses.is_dataclass(thing):
        from holdfast.settings import field_help

        told = field_help(thing)
        rows = [(f"`{f.name}`", told.get(f.name, "")) for f in dataclasses.fields(thing)]
        parts.append(table(("field", "meaning"), [row for row in rows if row[1]]))
    for method, function in vars(thing).items():
        if method[0] != "_" and (text := docstring_of(function)):
            call = getattr(function, "__func__", function)
            shown = signature(f"{name}.{method}", call) if inspect.isfunction(call) else ""
            parts += [f"#### {name}.{method}", shown, document(text)]
    return parts


def docstring_of(member: Any) -> str:
    """The docstring of a method or property; none for plain attributes."""
    kinds = (property, classmethod, staticmethod)
    return (member.__doc__ or "") if inspect.isfunction(member) or isinstance(member, kinds) else ""


def signature(name: str, call: Any) -> str:
    """A code block; one argument a line where it would be too wide."""
    found = inspect.signature(call)
    kept = [
        parameter.replace(annotation=plain(parameter.annotation))
        for key, parameter in found.parameters.items()
        if key not in ("self", "cls")
    ]
    back = plain(found.return_annotation)
    text = str(found.replace(parameters=kept, return_annotation=back))
    text = re.sub(r"<factory>", "...", re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text))
    if len(name + text) > 80:
        inside, _, result = text[1:].rpartition(")")
        split = ",\n    ".join(arguments(inside))
        text = f"(\n    {split},\n){result}"
    return f"```python\n{name}{text}\n```"


class Plain(str):
    """A text that represents itself without quotes."""

    def __repr__(self) -> str:
        return str(self)


def plain(annotation: Any) -> Any:
    return Plain(annotation) if isinstance(annotation, str) else annotation


def arguments(text: str) -> Iterator[str]:
    """The parts of a list of arguments: commas inside brackets do not separate."""
    depth, part = 0, ""
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += sign
    yield part.strip()


def document(text: str | None) -> str:
    """A docstring as Markdown: examples become code."""
    return re.sub(r"^(>>>|\.\.\. )", r"    \1", inspect.cleandoc(text or ""), flags=re.M)


def settings() -> str:
    """The settings that every run has."""
    from holdfast.cli.options import grouped
    from holdfast.run import make_run

    groups = grouped(make_run("c-trpo"))
    return (
        "# Settings of a run\n\nOf every algorithm; flags of `holdfast train`, keywords of "
        "`Agent`, `learn` and `make_run`, keys of suites. The algorithms' own are on their "
        "pages.\n\n" + _settings([*groups[""], *groups["training"]], {})
    )


def usage_of(algorithm: str) -> str:
    """A section that shows how to train with it: on the command line and in Python."""
    task, probe = "SafetyPointGoal1-v0", "probe/Speed-v0"
    return (
        "\n\n## Use it\n\n"
        f"```sh\nholdfast train {algorithm} {task} --steps 1e6 --seed 0 --out runs/{algorithm}\n"
        f"holdfast evaluate runs/{algorithm}\n```\n\n"
        "```python\nfrom holdfast import Agent\n\n"
        f'agent = Agent("{algorithm}").learn("{probe}", total_steps=100_000, cost_limit=6.0)\n'
        "print(agent.evaluate().verdict)\n```\n\n"
        "`--preset published` does what public code does where that differs from the mathematics; "
        f"`holdfast list {algorithm}` and [the settings](#settings) below name every option.\n"
    )


def settings_of(algorithm: str) -> str:
    """A section with the algorithm's own settings and what presets make of them."""
    from holdfast.cli.options import grouped
    from holdfast.register import PRESETS
    from holdfast.run import make_run, preset_changes

    run = make_run(algorithm)
    presets = {name: preset_changes(run, name) for name in PRESETS}
    changed = {path for changes in presets.values() for path in changes}
    own = [
        setting
        for title, group in grouped(run).items()
        for setting in group
        if title not in ("", "training") or setting.path in changed
    ]
    return f"## Settings\n\n{_settings(own, presets)}\n"


def _settings(found: Sequence[Any], presets: Mapping[str, Mapping[str, object]]) -> str:
    """A table; of presets only what differs from the default."""
    from holdfast.cli.options import default_of, flag

    rows = []
    for setting in found:
        values = [changes.get(setting.path, setting.value) for changes in presets.values()]
        shown = ["" if value == setting.value else f"`{value}`" for value in values]
        rows.append([f"`{flag(setting.name)}`", f"`{default_of(setting)}`", *shown, setting.help])
    return table(("flag", "default", *presets, "meaning"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; nothing for no rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in r] for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
