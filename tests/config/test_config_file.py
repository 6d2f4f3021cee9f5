"""The config file: what is accepted, and that every complaint names file, key and expectation."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from tui.config import schema
from tui.config.load import ConfigError, load, parse
from tui.config.template import render
from tui.model.settings import Config, EngineTarget, ProbeSpec
from tui.ui.themes import directories

if TYPE_CHECKING:
    from pathlib import Path


def test_the_template_is_the_defaults() -> None:
    assert parse(render(), "template") == Config()


def test_every_key_of_the_template_can_be_uncommented() -> None:
    text = re.sub(r"(?m)^# (\[|[a-z_0-9]+ = )", r"\1", render())
    config = parse(text, "template")
    assert config.engines == (EngineTarget(url="http://127.0.0.1:8000"),)
    assert config.probes.liveness == ProbeSpec()
    assert dataclasses.replace(config, engines=(), probes=Config().probes) == Config()


def test_the_schema_has_every_setting() -> None:
    for section, (made, keys) in schema.SECTIONS.items():
        nested = {s.partition(".")[2] for s in schema.SECTIONS if s.startswith(f"{section}.")}
        assert {key.name for key in keys} | nested == {f.name for f in dataclasses.fields(made)}, section
    engine = {f.name for f in dataclasses.fields(EngineTarget)} - {"discovered"}
    assert {key.name for key in schema.ENGINE} == engine


def test_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        """
interval_s = 2
[[engines]]
url = "gpu-07:8000/"
engine = "vllm"
headers = { X-Team = "a" }
[slo]
ttft_p95_s = 0.5
[thresholds]
stalled_scrapes = 4
[probes.liveness]
path = "/health"
timeout_s = 5
[actions]
start_command = ["systemctl", "start", "vllm"]
"""
    )
    config = load(path)
    assert config.interval_s == 2.0
    assert config.engines == (EngineTarget(url="http://gpu-07:8000", engine="vllm", headers={"X-Team": "a"}),)
    assert config.slo.ttft_p95_s == 0.5
    assert config.thresholds.stalled_scrapes == 4
    assert config.probes.liveness == ProbeSpec(path="/health", timeout_s=5.0)
    assert config.probes.readiness is None
    assert config.actions.start_command == ("systemctl", "start", "vllm")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("intervall_s = 1", "f.toml: intervall_s: unknown key; expected one of interval_s"),
        ("interval_s = 0", "f.toml: interval_s: expected a number from 0.2 to 3600, got 0"),
        ("interval_s = true", "f.toml: interval_s: expected a number from 0.2 to 3600, got True"),
        ("interval_s = nan", "f.toml: interval_s: expected a number from 0.2 to 3600, got nan"),
        (
            "[thresholds]\nkv_usage_full = 95",
            "thresholds.kv_usage_full: expected a number from 0 to 1, got 95",
        ),
        ("[thresholds]\nsm_high_pct = 101", "thresholds.sm_high_pct: expected a number from 0 to 100"),
        ("[thresholds]\nkv = 1", "thresholds.kv: unknown key"),
        ("[slo]\nttft_p95_s = '2'", "slo.ttft_p95_s: expected a number of at least 0, got '2'"),
        ("slo = 3", "[slo]: expected a section, got 3"),
        ("[slow]", "slow: unknown key"),
        ("[[engines]]\nengine = 'vllm'", "engines[1].url: expected an http:// or https:// URL, got nothing"),
        ("[[engines]]\nurl = 'ftp://x'", "engines[1].url: expected an http:// or https:// URL"),
        ("[[engines]]\nurl = 'x'\nengine = 'tgi'", 'engines[1].engine: expected one of "auto", "vllm"'),
        ("engines = 'x'", "engines: expected [[engines]] sections"),
        ("[probes.liveness]\nperiod = 3", "probes.liveness.period: unknown key"),
        ("[probes]\nliveness = 3", "[probes.liveness]: expected a section"),
        (
            "[probes.readiness]\npath = 'health'",
            'probes.readiness.path: expected a path that starts with "/"',
        ),
        ("[actions]\nstart_command = 'run'", "actions.start_command: expected a list of strings"),
        ("[screen]\nascii = 1", "screen.ascii: expected true or false, got 1"),
        ("interval_s = ", "f.toml: Invalid value"),
    ],
)
def test_complaints(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.toml")
    assert complaint in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("interval_s = 0\n[slo]\nx = 1\n[screen]\nslow = 2", "f")
    assert len(caught.value.faults) == 3


def test_a_secret_is_not_quoted() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[[engines]]\nurl = 'x'\ntoken = ['hunter2']\nheaders = { A = ['hunter2'] }", "f")
    assert "hunter2" not in str(caught.value)
    assert "engines[1].token: expected a string" in str(caught.value)


def test_a_file_nested_without_end_is_a_fault_like_any_other() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse("a = " + "[" * 100_000, "deep.toml")


@pytest.mark.parametrize("home", ["x" * 5000, None], ids=["a place that cannot be asked", "no home at all"])
def test_without_a_place_for_settings_the_defaults_hold(
    home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if home is None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)  # as in a container: no entry in passwd
    else:
        monkeypatch.setenv("XDG_CONFIG_HOME", f"/{home}")
    assert load(None) == Config()
    assert len(directories()) == 1


def test_a_missing_file_is_an_error_only_when_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load(None) == Config()
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "bad.toml")
