"""Every rule has words, and the machinery around rules holds."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from tests.verdict import cards, made
from tests.verdict.situations import SITUATIONS
from tests.verdict.test_live_removal import picture_of, removals
from tui.model.engine_host import EngineHostReading
from tui.model.history import History
from tui.model.readings import EngineReading, GpuReading, HostReading
from tui.model.settings import Slo, Thresholds
from tui.sources.option_defaults import option_defaults
from tui.verdict import texts
from tui.verdict.advice import IN_FORCE, TAKES_A_RESTART, UNDER, advice
from tui.verdict.assess import RANK, assess
from tui.verdict.findings import findings
from tui.verdict.live import pictures
from tui.verdict.observation import picture_from_observation
from tui.verdict.outcome import Outcome, Rule
from tui.verdict.picture import Picture, Processes, Trends
from tui.verdict.rules import RULES
from tui.verdict.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.readings import EngineKind
    from tui.model.verdicts import VerdictName

LIMITS, SLO = Thresholds(), Slo()
_FIELD = re.compile(r"{(\w+)}")


def said(name: VerdictName, picture: Picture) -> tuple[str, ...]:
    return advice(name, Signals(picture, LIMITS, SLO))


def every_line(name: VerdictName, kind: EngineKind | None) -> Iterator[str]:
    """All that may be said, whatever the picture, with the fields still open."""
    text = texts.TEXTS[name]
    for line in (*text.first, *(text.flags.get(kind, ()) if kind else ()), *text.advice):
        yield from (line,) if isinstance(line, str) else filter(None, (line.text, line.otherwise))


def test_rule_without_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts.check_complete([rule.id for rule in RULES])
    without = {name: t for name, t in texts.TEXTS.items() if name != "cpu"}
    monkeypatch.setattr(texts, "TEXTS", without)
    with pytest.raises(LookupError, match="cpu"):
        texts.check_complete([rule.id for rule in RULES])


def test_advice_for_one_engine_only_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    half = dataclasses.replace(texts.TEXTS["kv_cache"], flags={"vllm": ("x",)})
    monkeypatch.setattr(texts, "TEXTS", {**texts.TEXTS, "kv_cache": half})
    with pytest.raises(LookupError, match=r"kv_cache.*sglang"):
        texts.check_complete(["kv_cache"])


def test_every_verdict_has_a_rank_and_fits_the_headline() -> None:
    assert set(RANK) == {rule.id for rule in RULES} | {"unknown"} == set(texts.TEXTS)
    assert all(len(t.title) <= 20 and t.title == t.title.upper() for t in texts.TEXTS.values())
    for name in RANK:
        for kind in (*texts.ENGINES, None):
            assert not any("{" in line for line in said(name, Picture("x", kind)))
            assert all(len(_FIELD.sub("", line)) <= 110 for line in every_line(name, kind))


KNOWN: dict[str, frozenset[str]] = {
    "vllm": frozenset((
        "max-num-seqs", "max-model-len", "max-num-batched-tokens", "gpu-memory-utilization", "kv-cache-dtype",
        "enable-prefix-caching", "api-server-count", "shutdown-timeout",
    )),
    "sglang": frozenset((
        "max-running-requests", "context-length", "mem-fraction-static", "kv-cache-dtype", "chunked-prefill-size",
        "schedule-conservativeness", "disable-radix-cache", "tokenizer-worker-num", "skip-tokenizer-init",
    )),
    "trtllm": frozenset((
        "max_batch_size", "max_seq_len", "max_num_tokens", "kv_cache_free_gpu_memory_fraction", "kv_cache_config",
        "enable_block_reuse", "num_postprocess_workers", "enable_chunked_prefill",
        "capacity_scheduler_policy",
    )),
    "triton": frozenset((
        "max_batch_size", "max_num_tokens", "kv_cache_free_gpu_mem_fraction", "batch_scheduler_policy",
        "max_utilization", "guaranteed_no_evict", "enable_kv_cache_reuse", "enable_chunked_context", "exit-timeout-secs",
    )),
}  # fmt: skip
"""Options of the engines' own command lines and configuration files, each with its present name."""
OTHERS = frozenset(("generate", "native", "max_tokens", "num_requests_waiting_by_reason"))
"""Ours, py-spy's, a field of requests, and a metric of vLLM's."""
_OPTION = re.compile(r"--([a-z0-9][a-z0-9_-]+)|\b(?!fp8)([a-z0-9]+(?:_[a-z0-9]+)+)\b")


@pytest.mark.parametrize("kind", texts.ENGINES)
def test_advice_names_only_options_that_the_engine_has(kind: EngineKind) -> None:
    named = {
        found[1] or found[2]
        for name in RANK
        for line in every_line(name, kind)
        for found in _OPTION.finditer(_FIELD.sub("", line))
    }
    named -= OTHERS
    assert named <= KNOWN[kind], named - KNOWN[kind]
    assert len(named) >= 5
    versions = {"vllm": "0.33.0", "sglang": "0.5.23", "trtllm": "1.2.1", "triton": "2.60"}
    defaults = option_defaults(kind, versions[kind], {})
    lines = " ".join(line for name in RANK for line in every_line(name, kind))
    for option in named & defaults.keys():  # a default that we know is told as the value in force
        fields = [field for field, names in IN_FORCE.items() if option in names]
        assert any(f"{option}{{{field}}}" in lines for field in fields) or f"{option} fp8" in lines, option


def test_every_field_of_the_texts_is_filled_and_every_filling_is_used() -> None:
    lines = (line for name in RANK for kind in texts.ENGINES for line in every_line(name, kind))
    fields = {found[1] for line in lines for found in _FIELD.finditer(line)}
    assert fields == IN_FORCE.keys() | {UNDER}


@pytest.mark.parametrize("kind", texts.ENGINES)
@pytest.mark.parametrize("name", sorted(texts.NEED_FLAGS))
def test_advice_that_takes_a_restart_says_what_one_costs(name: VerdictName, kind: EngineKind) -> None:
    picture = picture_of(name)
    assert picture.engine is not None
    on_time = dataclasses.replace(picture.engine, ttft_p95_s=0.4, queue_p95_s=0.1)
    assert said(name, dataclasses.replace(picture, kind=kind, engine=on_time))[-1] == TAKES_A_RESTART


def test_a_restart_is_no_matter_where_no_option_is_named() -> None:
    flooded = dataclasses.replace(picture_of("compute"), kind="vllm")
    assert TAKES_A_RESTART not in said("compute", flooded)


@pytest.mark.parametrize("name", sorted(set(RANK) - {"healthy", "idle", "unknown", "engine_down"}))
def test_advice_says_when_a_restart_is_a_mistake(name: VerdictName) -> None:
    """The most expensive thing a tool can recommend."""
    lines = " ".join(said(name, picture_of(name)))
    assert re.search(r"do not (just )?restart|a restart|restarting the engine changes nothing", lines), lines


def test_a_cache_that_is_stored_in_eight_bits_is_not_to_be_made_so() -> None:
    full = dataclasses.replace(picture_of("kv_cache"), seats=1024.0, args={"kv-cache-dtype": "fp8"})
    lines = said("kv_cache", full)
    assert not any("kv-cache-dtype" in line for line in lines)
    assert lines[0].startswith("lower --max-num-seqs (now 1024)")


@pytest.mark.parametrize("option", ["num-gpu-blocks-override", "kv-cache-memory-bytes"])
def test_a_pool_of_a_given_size_is_not_changed_by_the_fraction(option: str) -> None:
    given = {"gpu-memory-utilization": "0.9", option: "{24}"}
    names: tuple[VerdictName, ...] = ("kv_cache", "gpu_memory", "degraded_cache")
    for name in names:
        lines = " ".join(said(name, dataclasses.replace(picture_of(name), args=given)))
        assert f"--{option} (now {{24}})" in lines
        assert "gpu-memory-utilization" not in lines
        assert "0.85" not in lines


def test_what_changes_a_rules_mind_is_among_its_inputs() -> None:
    """An input that is taken away and makes a rule say otherwise is one that it looks at."""
    pictures_ = [picture_of(name) for name in SITUATIONS]
    for verdict in cards.BUILDERS:
        pictures_ += [picture_from_observation(case.line) for case in cards.cases(verdict, 2)]
    whole = ("probes", "processes", "own", "trends")
    undeclared = set()
    for picture in pictures_:
        before = assess(picture, LIMITS, SLO).outcomes
        for where, changed in removals(picture):
            after = assess(changed, LIMITS, SLO).outcomes
            for rule in RULES:
                a, b = after[rule.id], before[rule.id]
                if (a.state, a.points) != (b.state, b.points) and where not in (*whole, *rule.inputs):
                    undeclared.add((rule.id, where))
    assert not undeclared


def test_evidence_that_is_no_figure_is_declared() -> None:
    inputs = {rule.id: rule.inputs for rule in RULES}
    assert "stopping" in inputs["draining"]
    assert {"death", "our_test"} <= set(inputs["engine_down"])


def test_declared_inputs_exist() -> None:
    owners = {
        "engine": EngineReading, "gpus": GpuReading, "host": HostReading, "trends": Trends, "processes": Processes,
        "own": EngineHostReading,
    }  # fmt: skip
    for rule in RULES:
        for name in rule.inputs:
            section, _, field = name.partition(".")
            if section == "probes":
                assert field in ("liveness", "readiness", "generate")
                continue
            owner = owners[section] if field else Picture
            assert (field or section) in {f.name for f in dataclasses.fields(owner)}, name


def _broken(signals: Signals) -> Outcome:
    raise ZeroDivisionError(f"broken {signals.picture.scope[:0]}[red]")


def test_rule_that_fails_is_a_finding_and_the_others_still_judge() -> None:
    view = made.view()
    snapshot = made.snapshot(view)
    picture = pictures(snapshot, History())[0]
    rules = tuple(dataclasses.replace(r, judge=_broken) if r.id == "cpu" else r for r in RULES)
    found = assess(picture, LIMITS, SLO, rules)
    assert (found.verdict.verdict, found.verdict.confidence) == ("healthy", "medium")
    assert found.errors == ("cpu: ZeroDivisionError: broken [red]",)
    shown = findings(snapshot, (found,), LIMITS)
    assert [(f.id, f.level, f.scope) for f in shown] == [("rule-error", "error", made.URL)]


def test_rules_are_data() -> None:
    assert all(isinstance(rule, Rule) and rule.inputs and rule.judge.__doc__ for rule in RULES)
