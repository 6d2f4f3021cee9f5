"""Every command, option and key that README.md and CONTRIBUTING.md print is one that this program takes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tui import cli
from tui.ui.keys import KEYS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FENCED = re.compile(r"(?ms)^```\w*\n(.*?)^```$")
INLINE = re.compile(r"`([^`\n]+)`")
PLACEHOLDERS = re.compile(r"[\[\]]|\.\.\.|\\\|.*")
"""Of a synopsis: its brackets, dots, and what stands for a value of another kind."""
NOT_OURS = {"--spec", "--shutdown-timeout"}
"""Options of pipx and of an engine."""


def printed() -> Iterator[str]:
    """Command lines of this program, as they stand there."""
    for block in FENCED.findall(README):
        yield from re.findall(r"(?m)^(infertop .*)$", block)
        yield from re.findall(r"#\((infertop [^)]*)\)", block)
        for words in re.findall(r"command: (\[infertop.*\])", block):
            yield shlex.join(json.loads(re.sub(r"(?<=[\[ ])([a-z-]+)(?=[,\]])", r'"\1"', words)))
        for words in re.findall(r'CMD (\["infertop".*\])', block):
            yield shlex.join(json.loads(words))
    for code in INLINE.findall(FENCED.sub("", README)):
        if re.match(r"infertop( |$)", code):
            yield PLACEHOLDERS.sub("", code.partition(">")[0])


class TakenError(Exception):
    """The words were taken; nothing is run."""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[argparse.ArgumentParser]:
    """Commands end once their words are taken; their parsers."""
    seen: list[argparse.ArgumentParser] = []

    def only_parse(module: Any, parser: argparse.ArgumentParser, words: list[str]) -> int:
        seen.append(parser)
        parser.parse_args(words)
        raise TakenError

    monkeypatch.setattr(cli, "_run", only_parse)
    return seen


@pytest.mark.parametrize("line", sorted(set(printed())))
@pytest.mark.usefixtures("parsed")
def test_a_printed_command_is_taken(line: str) -> None:
    with pytest.raises(TakenError):
        cli.main(shlex.split(line)[1:])


def test_every_command_is_printed() -> None:
    named = {line.split()[1] for line in printed() if len(line.split()) > 1}
    assert set(cli.COMMANDS) <= named


def test_every_option_that_is_named_exists(parsed: list[argparse.ArgumentParser]) -> None:
    for name in ("", *cli.COMMANDS):
        with pytest.raises((TakenError, SystemExit)):
            cli.main([name] if name else [])
    known = {option for parser in parsed for action in parser._actions for option in action.option_strings}
    prose = " ".join(INLINE.findall(FENCED.sub("", README)))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", prose)) - known - NOT_OURS == set()


def test_the_plan_that_needs_no_file_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    line = next(line for line in printed() if line.startswith("infertop plan --layers"))
    assert cli.main(shlex.split(line)[1:]) in (0, 1)
    assert "weights" in capsys.readouterr().out


def test_every_key_of_the_help_is_in_the_table_and_once() -> None:
    rows = re.findall(r"(?m)^\| (.*?) \| .* \|$", README.partition("## Keys")[2].partition("## Config")[0])
    named = re.findall(r"[^\s`,]+", " ".join(rows))
    shown = [key.shown.replace("^", "Ctrl+").upper() for key in KEYS if key.help]
    assert {word for words in shown for word in words.split()} <= {word.upper() for word in named}
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_exists(document: str) -> None:
    targets = set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text()))
    named = set(re.findall(r"(?m)(?:^|`)make ([a-z]+)", (ROOT / document).read_text()))
    assert named
    assert named <= targets


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_file_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    for path in re.findall(r"`((?:tui|tests|themes|snapshots|pictures)/[\w./-]*)`", text):
        assert (ROOT / path).exists() or path in ("themes/",), path
    for path in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (ROOT / path).is_file(), path
