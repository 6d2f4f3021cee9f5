"""The config file: what is accepted, and that every complaint names file, key and expectation."""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from pathlib import Path

import pytest

from tui.config import schema
from tui.config.load import ConfigError, load, parse
from tui.config.template import render
from tui.model.settings import Config, EngineTarget, ProbeSpec, ScreenSettings
from tui.ui.themes import directories


def test_the_template_is_the_defaults() -> None:
    assert parse(render(), "template") == Config()


def test_every_key_of_the_template_can_be_uncommented() -> None:
    text = re.sub(r"(?m)^# (\[|[a-z_0-9]+ = )", r"\1", render())
    config = parse(text, "template")
    assert config.engines == (EngineTarget(url="http://127.0.0.1:8000"),)
    assert config.probes.liveness == ProbeSpec()
    assert config.screen == ScreenSettings(theme_named=True)
    assert (
        dataclasses.replace(config, engines=(), probes=Config().probes, screen=ScreenSettings()) == Config()
    )


def test_the_schema_has_every_setting() -> None:
    for section, (made, keys) in schema.SECTIONS.items():
        nested = {s.partition(".")[2] for s in schema.SECTIONS if s.startswith(f"{section}.")}
        not_keys = {"manifest", "handler", "host", "headers", "theme_named"}
        settings = {f.name for f in dataclasses.fields(made)} - not_keys
        assert {key.name for key in keys} | nested == settings, section
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
        (
            "[[engines]]\nurl = 'a:1/'\n[[engines]]\nurl = 'b:1'\n[[engines]]\nurl = 'http://a:1'",
            "f.toml: engines[3].url: http://a:1 is that of engines[1] already",
        ),
        (
            "[thresholds]\nkv_usage_warn = 0.97",
            "f.toml: thresholds.kv_usage_warn: expected at most kv_usage_full (0.95), got 0.97",
        ),
        (
            "[thresholds]\nsm_high_pct = 50",
            "thresholds.sm_low_pct: expected at most sm_high_pct (50), got 75",
        ),
        ("interval_s = 1" + "0" * 400, "interval_s: expected a number from 0.2 to 3600"),
        ("interval_s = 1" + "0" * 5000, "f.toml: a number with too many digits"),
        ("interval_s = 0x1" + "0" * 5000, "got a number with too many digits"),
        ("[thresholds]\nnet_mb_s = 0x1" + "0" * 500, "net_mb_s: expected a number of at least 0"),
        (
            "[[engines]]\nurl = 'x'\ntoken = \"a\\r\\nX: b\"",
            "engines[1].token: expected a string without control",
        ),
        ("[[engines]]\nurl = 'x'\ntoken = 'a '", "engines[1].token: expected a string without control"),
        (
            "[[engines]]\nurl = 'x'\nheaders = {A = \"b\\n\"}",
            "engines[1].headers: expected header values without",
        ),
        ("[[engines]]\nurl = 'x'\nheaders = {\"A b\" = 'c'}", "engines[1].headers: expected header names"),
        (
            "[[engines]]\nurl = 'x'\nheaders = {Content-Length = '9'}",
            "engines[1].headers: expected headers other",
        ),
        (
            "[[engines]]\nurl = 'x'\nproxy = 'socks5://p:1'",
            'engines[1].proxy: expected "", "env", or the URL',
        ),
        ("[[engines]]\nurl = 'x'\nproxy = 'http://p:1/x'", "(a proxy has no path), got something else"),
        ("[[engines]]\nurl = 'http://[fe80::1%]'", "engines[1].url: expected an http:// or https:// URL"),
        ("[[engines]]\nurl = 'http://a%eth0'", "only an IPv6 address has a zone"),
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


def test_a_theme_that_was_named_is_told_from_the_usual_one() -> None:
    assert '# theme = "dark" ' in render()
    assert parse(render(), "f").screen == ScreenSettings(theme="dark", theme_named=False)
    assert parse('[screen]\ntheme = "dark"', "f").screen == ScreenSettings(theme="dark", theme_named=True)
    assert parse("[screen]\nslow = true", "f").screen == ScreenSettings(slow=True)


def test_a_secret_is_not_quoted() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[[engines]]\nurl = 'x'\ntoken = ['hunter2']\nheaders = { A = ['hunter2'] }", "f")
    assert "hunter2" not in str(caught.value)
    for text in (
        "engines = [3, {token = 'hunter2'}]",
        "[[engines]]\nurl = 'x'\nproxy = 'http://u:hunter2@[p'",
        "[[engines]]\nurl = 'x'\nproxy = 'socks5://u:hunter2@p'",
        "[[engines]]\nurl = 'x'\ntoken = \"hunter2\\u0000\"",
    ):
        with pytest.raises(ConfigError) as other:
            parse(text, "f")
        assert "hunter2" not in str(other.value)
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


def test_a_byte_order_mark_and_line_ends_of_windows_are_read_over(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbfinterval_s = 2\r\n[slo]\r\nttft_p95_s = 3\r\n")
    assert (load(tmp_path / "c.toml").interval_s, load(tmp_path / "c.toml").slo.ttft_p95_s) == (2.0, 3.0)


def test_a_zone_is_written_as_in_urls_or_as_everywhere_else() -> None:
    for text in ("[fe80::1%25eth0]:8000", "http://[fe80::1%eth0]:8000/"):
        (engine,) = parse(f"[[engines]]\nurl = '{text}'", "f").engines
        assert engine.url == "http://[fe80::1%eth0]:8000"


def test_a_proxy_is_one_of_three() -> None:
    for text in ("", "env", "http://u:p@proxy:3128", "https://proxy"):
        (engine,) = parse(f"[[engines]]\nurl = 'x'\nproxy = '{text}'", "f").engines
        assert engine.proxy == text


# ------------------------------------------------------------------------------- what is no plain file


def test_a_fifo_to_which_nobody_writes_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.config.inputs.FIFO_WAIT_S", 0.1)
    os.mkfifo(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="nothing was written to it within"):
        load(tmp_path / "c.toml")


def test_a_fifo_with_a_writer_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.toml")
    writing = threading.Thread(target=(tmp_path / "c.toml").write_text, args=("interval_s = 2",), daemon=True)
    writing.start()
    assert load(tmp_path / "c.toml").interval_s == 2.0
    writing.join(10)


def test_a_pipe_of_the_shell_is_waited_for_as_its_command_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.config.inputs.FIFO_WAIT_S", 0.0)  # has no say here
    reading, writing = os.pipe()
    found: list[Config] = []
    loading = threading.Thread(target=lambda: found.append(load(Path(f"/dev/fd/{reading}"))), daemon=True)
    try:
        loading.start()
        loading.join(0.2)
        assert loading.is_alive()
        os.write(writing, b"interval_s = 2")
    finally:
        os.close(writing)
        loading.join(10)
        os.close(reading)
    assert [config.interval_s for config in found] == [2.0]


@pytest.mark.parametrize(
    ("path", "words"), [("/dev/zero", "not a regular file or a pipe"), ("/", "directory")]
)
def test_what_has_no_end_is_not_read(path: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(Path(path))


def test_the_null_device_is_an_empty_file() -> None:
    assert load(Path("/dev/null")) == Config()


def test_a_file_that_no_person_wrote_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "c.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load(tmp_path / "c.toml")
