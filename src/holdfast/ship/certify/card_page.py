# SPDX-License-Identifier: Apache-2.0
"""A card as one page that needs no network and runs no script."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from holdfast.console import counted
from holdfast.core.limits import parse_limit
from holdfast.drawing import svg
from holdfast.drawing.palette import page_colours
from holdfast.judge.evaluate import interval
from holdfast.ship.certify.card import CardInputs, digest

ANSWERS = {
    "yes": "Proved safe at 95 %",
    "no": "Proved unsafe at 95 %",
    "undecided": "Undecided: neither safe nor unsafe is proved",
}
MEDIA = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png"}


def render(data: dict[str, Any], judged: CardInputs, content: bytes) -> str:
    """The page of a card; `content` is the JSON file beside it."""
    policy, task, verdict = data["policy"], data["task"], data["verdict"]
    title = f"{policy['algorithm']} on {task['env']}"
    answer = verdict["safe_at_95"]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="dim">Model card of a policy: epoch {policy["epoch"]}, '
        f"{policy['env_steps']:,} environment steps, seed {policy['seed']}, "
        f"{policy['actions']} actions. {escape(policy['noise'])}</p>",
        f'<div class="verdict {answer}"><strong>{ANSWERS[answer]}</strong>'
        f"<p>{escape(_reason(verdict['proved']))}</p>"
        f"<p>{escape(verdict['if_the_tail_is_as_seen'])}</p>{_each(verdict['cost'])}</div>",
        _section("The task", _task(data)),
        _section("Assumptions", _list(verdict["assumptions"])),
        _section("What it does not show", _list(data["not_shown"])),
        _section("Costs", _costs(data, judged)),
        _section("Sampled and most likely actions", _heads(data)),
        _section("Under other conditions", _conditions(data)),
        _section("While it learned", _training(data, judged)),
        _section("Film", _film(judged)),
        _section("Files and versions", _files(data, content)),
        _section("To repeat it", f"<pre>{escape(chr(10).join(data['reproduce']))}</pre>"),
    ]
    style = page_colours() + svg.STYLE + (files("holdfast.ship.certify") / "card.css").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: model card</title><style>{style}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _reason(proved: str) -> str:
    """The sentence after its answer, which the heading has given."""
    words = re.sub(r"^Safe, proved at [^:]*: (yes|no|undecided)[;,] (as )?", "", proved)
    return words[:1].upper() + words[1:]


def _task(data: dict[str, Any]) -> str:
    """The task, and the meaning of each cost."""
    task = data["task"]
    rows = [
        (escape(name), escape(task["costs"].get(name, "")), str(parse_limit(limit)))
        for name, limit in task["limits"].items()
    ]
    what = "discounted sum" if task["criterion"] == "discounted" else "sum"
    about = f"<p>{escape(task['about'])}</p>"
    kinds = [parse_limit(limit).quantity for limit in task["limits"].values()]
    beyond = any(isinstance(limit, str) for limit in task["limits"].values())
    on = "; ".join(dict.fromkeys(kinds)) if beyond else f"mean {what} of an episode's costs"
    unit = f'<p class="dim">A limit is on the {escape(on)}.</p>'
    return about + _table(("cost", "meaning", "limit"), rows, 2) + unit


def _each(costs: dict[str, Any]) -> str:
    """The verdict of each of several constraints; the sentences above are about the deciding
    one.
    """
    if len(costs) < 2:
        return ""
    words = [f"{n} {_holds(c)} (mean {c['mean']:.2f} of {c['limit']:g})" for n, c in costs.items()]
    return f"<p>Each constraint: {escape(', '.join(words))}.</p>"


def _holds(cost: dict[str, Any]) -> str:
    """The proved verdict of one constraint."""
    low, high, most = (
        cost["proved_low_95"],
        cost["proved_high_95"],
        cost.get("bound", cost["limit"]),
    )
    if high is not None and high <= most:
        return "safe"
    return "unsafe" if low is not None and low > most else "undecided"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 99) -> str:
    """Rows of escaped cells; columns from `numbers` on are set as numbers."""
    kind = lambda i: ' class="number"' if i >= numbers else ""
    top = "".join(f"<th{kind(i)}>{escape(cell)}</th>" for i, cell in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(i)}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead>{body}</table></div>'


def _costs(data: dict[str, Any], judged: CardInputs) -> str:
    verdict, result = data["verdict"], judged.evaluation
    bounds = "proved at 95 %", "if the tail is as seen", "limit", "at most, one episode"
    head = ("cost", "proved", "mean", "worst 5 %", *bounds)
    rows = [
        (
            escape(name),
            _holds(cost),
            f"{cost['mean']:.2f}",
            f"{cost['worst_5']:.2f}",
            interval(cost["proved_low_95"], cost["proved_high_95"], result.claims[name]),
            interval(cost["seen_low_95"], cost["seen_high_95"], result.claims[name]),
            str(cost.get("kind", f"{cost['limit']:g}")),
            "unknown" if cost["cost_bound"] is None else f"{cost['cost_bound']:g}",
        )
        for name, cost in verdict["cost"].items()
    ]
    drawn = "".join(
        svg.histogram(result.costs[:, i], limit, float(result.costs[:, i].mean()), name)
        for i, (name, limit) in enumerate(result.limits.items())
    )
    rate = verdict["violation_rate"]
    low, high = rate["low_95"], rate["high_95"]
    sentence = (
        f"<p>Episodes over a limit: {rate['estimate']:.1%}, 95 % interval {low:.1%} to {high:.1%}. "
        f"Return: {verdict['return']['mean']:.1f} on average, sd {verdict['return']['sd']:.1f}, "
        f"over {counted(verdict['episodes'], 'episode')}.</p>"
    )
    label = "Probability that an episode exceeds a limit, with its 95 % interval"
    return (
        _table(head, rows, 2) + drawn + sentence + svg.interval(rate["estimate"], low, high, label)
    )


def _heads(data: dict[str, Any]) -> str:
    """The policy with sampled and with most likely actions."""
    if data["other_head"] is None:
        return "<p>Only one of them was judged.</p>"
    both = {data["policy"]["actions"]: data["verdict"]}
    both[data["other_head"]["actions"]] = data["other_head"]
    return _compared(data, "actions", both)


def _conditions(data: dict[str, Any]) -> str:
    if not data["conditions"]:
        return "<p>None were tried: the numbers above are of the training environment.</p>"
    return _compared(data, "condition", data["conditions"])


def _compared(data: dict[str, Any], what: str, found_by: Mapping[str, dict[str, Any]]) -> str:
    """Return, cost and verdict of several evaluations."""
    rows = [
        (
            escape(name),
            f"{found['return']['mean']:.1f}",
            ", ".join(f"{cost['mean']:.2f}" for cost in found["cost"].values()),
            f"{found['violation_rate']['estimate']:.1%}",
            escape(found["safe_at_95"]),
        )
        for name, found in found_by.items()
    ]
    names = list(data["task"]["limits"])
    cost = f"mean cost: {', '.join(names)}" if len(names) > 1 else "mean cost"
    head = (what, "return", cost, "episodes over a limit", "proved safe")
    return _table(head, rows, 1)


def _training(data: dict[str, Any], judged: CardInputs) -> str:
    past, found = judged.history, data["training"]
    if not found["epochs"]:
        return "<p>This policy was saved without the history of its training.</p>"
    label = f"Cost of an epoch: {', '.join(past.limits)}"
    drawn = svg.curves(past.steps, past.costs, past.limits, label, "cost")
    drawn += svg.curves(past.steps, past.returns[:, None], {}, "Return of an epoch", "return")
    worst = max((e["largest"] for e in found["excursions"]), default=None)
    largest = "none" if worst is None else f"{len(found['excursions'])}, the largest by {worst:.2f}"
    open_ones = sum(not e["ended"] for e in found["excursions"])
    rows = [
        ("cost regret (sum of all costs above a limit)", f"{found['cost_regret']:.2f}"),
        ("epochs above a limit", f"{found['epochs_over_limit']} of {found['epochs']}"),
        ("excursions above a limit", largest),
        ("recoveries: excursions that ended", f"{found['recoveries']}"),
        ("excursions not over when training ended", f"{open_ones}"),
        ("epochs in which the update only reduced the cost", f"{found['epochs_recovering']}"),
    ]
    return drawn + _table(("", ""), rows, 1)


def _film(judged: CardInputs) -> str:
    if judged.film is None:
        return f"<p>No film was made: {escape(judged.unfilmed)}</p>"
    kind = MEDIA[judged.film.suffix]
    source = f"data:{kind};base64,{base64.b64encode(judged.film.read_bytes()).decode()}"
    shown = (
        f'<video controls muted playsinline src="{source}"></video>'
        if kind.startswith("video")
        else f'<img alt="The costliest of the episodes played" src="{source}">'
    )
    return f'{shown}<p class="dim">The costliest of the episodes played.</p>'


def _files(data: dict[str, Any], content: bytes) -> str:
    listed = {**data["files"], "card.json": digest(content)}
    rows = [
        (f"<code>{escape(name)}</code>", f"<code>{found['sha256']}</code>", f"{found['bytes']:,}")
        for name, found in listed.items()
    ]
    trained, now = data["versions"]["trained"], data["versions"]["judged"]
    names = list(dict.fromkeys([*trained, *now]))
    versions = [(escape(n), escape(trained.get(n, "–")), escape(now.get(n, "–"))) for n in names]
    return (
        _table(("file", "SHA-256", "bytes"), rows, 2)
        + "<p></p>"
        + _table(("", "trained with", "judged with"), versions)
    )
