# SPDX-License-Identifier: Apache-2.0
"""The check of prose, .ci/sentences.py: pages and help pass it, and faults are found."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("sentences", ROOT / ".ci" / "sentences.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["sentences"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["sentences"]


def test_pages_and_help_pass(check):
    files = check.checked()
    assert {"docs/training.md", "CHANGELOG.md", "src/holdfast/run/fields.py"} <= {
        str(file.relative_to(ROOT)) for file in files
    }
    found = [
        str(fault)
        for file in files
        for fault in check.faults(str(file.relative_to(ROOT)), file.read_text())
    ]
    assert not found, "\n".join(found)


def words(count):
    return " ".join(["word"] * count)


@pytest.mark.parametrize(
    "text",
    [
        f"{words(31)}.",
        f"Short. {words(31)}. Short.",
        f"{words(16)}\n{words(15)}.",  # a sentence that is wrapped
        f"- {words(16)}\n  {words(15)}",  # an item of a list
        f"| {words(31)} | cell |",
        f"{words(30)} `code`.",  # code is a word
        f"{words(30)} [word](address.md).",
        f"{words(20)}; {words(11)}.",  # a semicolon does not end a sentence
    ],
)
def test_long_sentences_are_found(check, text):
    (fault,) = check.faults("page.md", text)
    assert fault.reason == "31 words" and "word" in fault.sentence


@pytest.mark.parametrize(
    "text",
    [
        f"{words(30)}.",
        f"{words(30)}. {words(30)}.",
        f"{words(30)}\n\n{words(30)}",
        f"- {words(30)}\n- {words(30)}",
        f"| {words(30)} | {words(30)} |",
        f"# {words(30)}\n{words(30)}",
        f"{words(29)} `code with many words inside`.",
        f"{words(30)} 1 2 3 4 = 5.",
        f"```text\n{words(99)} says\n```",
        f"<!-- begin x -->\n{words(99)} says\n<!-- end x -->",
        f"    {words(99)}",
    ],
)
def test_short_sentences_code_and_generated_blocks_pass(check, text):
    assert check.faults("page.md", text) == []


@pytest.mark.parametrize(
    "text",
    ["A run says so.", "what was told", "C-TRPO lands.", "the fate", "what is left of it"],
)
def test_banned_phrases_are_found(check, text):
    assert check.faults("page.md", text)
    assert check.faults("module.py", f'"""{text}"""')
    assert check.faults("module.py", f'raise ValueError("{text}")')
    assert check.faults("module.py", f'warnings.warn(f"{text} {{x}}", stacklevel=2)')
    assert not check.faults("module.py", f'words = "{text}"'), "no prose: it may be data"
    assert not check.faults("page.md", f"`{text}`")


def test_an_error_may_have_more_words_than_a_sentence_of_a_page(check):
    error = 'raise ValueError(\n    f"{{x}} {}. {}"\n    "{}"\n) from None\n'
    assert check.faults("module.py", error.format(words(44), words(40), " again" * 5)) == []
    (fault,) = check.faults("module.py", error.format(words(45), words(40), " again" * 5))
    assert fault.reason == "46 words" and fault.place == "module.py:2"
    (fault,) = check.faults("module.py", error.format(words(9), words(40), " again" * 6))
    assert fault.reason == "46 words", "pieces of one text are one sentence"
    assert check.faults("module.py", f"raise Error({{}}, str({words(1)}))\nraise\n") == []


def test_codes_of_the_register_stand_in_pages_alone(check):
    field = 'class Run:\n    clip: str = ""\n    """Clip actions (D9)."""\n'
    (fault,) = check.faults("src/holdfast/run/fields.py", field)
    assert fault.place == "src/holdfast/run/fields.py:3" and "name the setting" in fault.reason
    assert not check.faults("page.md", "Clip actions (D9).")
    assert not check.faults(check.REGISTER, field)


def test_a_text_that_lost_its_second_half_is_found(check):
    cut = 'def f():\n    return "one "\n    "two"\n'
    (fault,) = check.faults("module.py", cut)
    assert fault.place == "module.py:3" and "parentheses" in fault.reason
    assert check.faults("module.py", 'A = "one "\n"two"\n')
    assert not check.faults("module.py", 'A = "one "\nB = "two"\n"""A docstring."""\n')
    assert not check.faults(
        "module.py", 'def f():\n    return (\n        "one "\n        "two"\n    )\n'
    )
