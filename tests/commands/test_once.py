"""``infertop once`` as a program: real sockets, the real binding over the fake NVML, exit status and contract."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import captures
from tests.support.program import run
from tests.support.servers import CUT, NEVER, Reply, drip, endless, json_reply, serve_in_thread, vllm
from tests.support.vllm_text import Rank, exposition

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tests.support.servers import Handler

pytest_plugins = ("tests.support.nvml_plugin",)

TOP = [
    "schema",
    "taken_at",
    "simulated",
    "host",
    "gpus",
    "engines",
    "probes",
    "verdicts",
    "orphans",
    "findings",
]
HOST = [
    "name",
    "cpu_pct_total",
    "cpu_cores",
    "load1",
    "busiest_process_cpu_pct",
    "busiest_process",
    "busiest_thread_cpu_pct",
    "busiest_thread",
    "iowait_pct",
    "disk_util_pct",
    "disk_read_mb_s",
    "disk_write_mb_s",
    "mem_used_pct",
    "psi_cpu",
    "psi_io",
    "psi_mem",
    "ctx_switches_s",
    "net_mb_s",
    "disks",
]
DISK = ["name", "r_s", "w_s", "read_mb_s", "write_mb_s", "util_pct", "await_ms"]
GPU = [
    "index",
    "uuid",
    "name",
    "sm_pct",
    "mem_ctrl_pct",
    "mem_used_mib",
    "mem_total_mib",
    "power_w",
    "power_limit_w",
    "temp_c",
    "throttle",
    "clock_sm_mhz",
    "clock_max_mhz",
    "clock_mem_mhz",
    "ecc_uncorrected",
    "remap_pending",
    "xid",
    "pcie_gen",
    "pcie_gen_max",
    "pcie_width",
    "pcie_width_max",
    "mig",
    "gpm_sm_active",
    "gpm_tensor_active",
    "gpm_dram_active",
    "processes",
    "state",
    "reason",
]
ENGINE = [
    "url",
    "engine",
    "version",
    "model",
    "simulated",
    "pid",
    "pids",
    "args",
    "state",
    "reason",
    "age_s",
    "running",
    "waiting",
    "waiting_by_reason",
    "kv_usage",
    "kv_usage_max",
    "kv_capacity_tokens",
    "preemptions_per_s",
    "prefix_hit_ratio",
    "evictions_per_s",
    "ttft_p50_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "itl_p50_s",
    "itl_p95_s",
    "e2e_p95_s",
    "queue_p95_s",
    "gen_tok_s",
    "prompt_tok_s",
    "req_s",
    "http_503_ratio",
    "error_ratio",
    "max_num_seqs",
    "since_last_step_s",
    "ranks",
    "missing",
]
PROBE = ["url", "kind", "path", "status", "latency_s", "latency_p99_s", "streak", "would"]
VERDICT = ["scope", "verdict", "secondary", "confidence", "state", "since", "evidence", "missing", "advice"]
EVIDENCE = ["signal", "value", "unit", "comparison", "threshold", "text"]


def once(*words: str, home: Path, env: dict[str, str] | None = None) -> tuple[int, Any]:
    ended = run("once", "--json", "--interval", "0.3", *words, home=home, env=env)
    assert ended.err == ""
    return ended.status, ended.json()


def engine_verdict(answer: Any) -> Any:
    return next(v for v in answer["verdicts"] if v["scope"] != "host")


def test_the_capture_of_a_real_engine_is_read_exactly(tmp_path: Path) -> None:
    body = captures.text("vllm-0.32/metrics-load.txt")
    with serve_in_thread(vllm(body)) as server:
        status, answer = once(server.url, home=tmp_path)
    engine = answer["engines"][0]
    assert (engine["running"], engine["waiting"]) == (8.0, 16.0)
    assert engine["kv_usage"] == pytest.approx(0.25396825396825395)
    assert (engine["engine"], engine["version"], engine["model"]) == ("vllm", "0.32.0", "tiny-llama")
    assert engine["kv_capacity_tokens"] == 8192
    assert engine["waiting_by_reason"] == {"capacity": 16.0, "deferred": 0.0}
    # work is present and nothing moved, but two samples cannot prove a hang
    verdict = engine_verdict(answer)
    assert verdict["verdict"] == "unknown"
    assert any("--samples 7" in missing for missing in verdict["missing"])
    assert status == 2


def test_standing_still_over_five_seconds_is_a_hang(tmp_path: Path) -> None:
    body = captures.text("vllm-0.32/metrics-load.txt")
    with serve_in_thread(vllm(body)) as server:
        ended = run("once", "--json", "--samples", "7", server.url, home=tmp_path)
    assert engine_verdict(ended.json())["verdict"] == "engine_hung"
    assert ended.status == 1


def test_the_contract_is_complete(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    with serve_in_thread(vllm(captures.text("vllm-0.32/metrics-load.txt"))) as server:
        _, answer = once(server.url, home=tmp_path, env=fake_nvml.environment())
    assert set(TOP) <= set(answer)
    assert answer["schema"] == 1
    assert answer["simulated"] is False
    for keys, found in (
        (HOST, answer["host"]),
        (GPU, answer["gpus"][0]),
        (ENGINE, answer["engines"][0]),
        (PROBE, answer["probes"][0]),
        (VERDICT, answer["verdicts"][0]),
        (EVIDENCE, answer["verdicts"][0]["evidence"][0]),
        (DISK, (answer["host"]["disks"] or [dict.fromkeys(DISK)])[0]),
    ):
        assert set(keys) <= set(found), set(keys) - set(found)
    assert answer["verdicts"][0]["scope"] == "host"
    assert all(verdict["since"] is None for verdict in answer["verdicts"])
    assert {probe["kind"] for probe in answer["probes"]} == {"liveness", "readiness"}
    assert {request.method for request in server.requests} == {"GET"}  # nothing is generated unasked
    assert all(probe["status"] == 200 for probe in answer["probes"])


def test_moving_counters_give_rates_and_a_restart_gives_no_wild_ones(tmp_path: Path) -> None:
    began = time.monotonic()

    def moving() -> Reply:
        t = time.monotonic() - began
        started = 1000.0 if t < 0.9 else 2000.0
        alive = t if t < 0.9 else t - 0.9
        base = 1_000_000.0 if t < 0.9 else 0.0
        rank = Rank(
            running=4,
            steps=base + 50 * alive,
            generated=base + 200 * alive,
            prompt=base + 80 * alive,
            stop=base + 10 * alive,
        )
        return Reply(200, exposition(rank, started=started))

    with serve_in_thread(vllm(moving)) as server:
        began = time.monotonic()
        _, answer = once("--samples", "6", server.url, home=tmp_path)
    engine = answer["engines"][0]
    assert engine["gen_tok_s"] == pytest.approx(200, rel=0.15)
    assert engine["prompt_tok_s"] == pytest.approx(80, rel=0.15)
    assert engine["req_s"] == pytest.approx(10, rel=0.15)
    assert engine["error_ratio"] == 0.0


def test_eight_gpus_as_they_are(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    values = fake_nvml.move(3)
    with serve_in_thread(vllm(exposition(Rank()))) as server:
        _, answer = once(server.url, home=tmp_path, env=fake_nvml.environment())
    assert [gpu["index"] for gpu in answer["gpus"]] == list(range(8))
    assert [gpu["sm_pct"] for gpu in answer["gpus"]] == [v["util_gpu"] for v in values]
    assert [gpu["temp_c"] for gpu in answer["gpus"]] == [v["temp_c"] for v in values]
    assert all(gpu["state"] == "ok" for gpu in answer["gpus"])


FAULTS = [
    ("refused", None, "refused"),
    ("never", {"*": NEVER}, "timeout"),
    ("drip", {"/metrics": drip()}, "timeout"),
    ("200 MB", {"/metrics": endless(200_000_000)}, "too_large"),
    ("html", {"/metrics": Reply(200, "<!doctype html><title>proxy</title>", "text/html")}, "not_metrics"),
    ("401", {"/metrics": Reply(401, "no")}, "401"),
    ("cut", {"/metrics": CUT}, "reset"),
    ("empty", {"/metrics": Reply(200, "")}, "empty"),
    ("redirect", {"/metrics": Reply(302, "", headers={"Location": "http://127.0.0.1:1/"})}, "redirect"),
    (
        "stats off",
        {"/metrics": Reply(200, captures.text("vllm-0.32/metrics-disable-log-stats.txt"))},
        "stats_off",
    ),
]


@pytest.mark.parametrize(("name", "routes", "reason"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_each_fault_has_its_name_and_is_never_called_calm(
    name: str, routes: dict[str, Any] | None, reason: str, tmp_path: Path
) -> None:
    with serve_in_thread({} if routes and "*" in routes else vllm("")) as server:
        url = server.url if routes is not None else "http://127.0.0.1:9"
        server.routes.update(routes or {})
        status, answer = once(url, home=tmp_path)
    engine = answer["engines"][0]
    assert engine["reason"] == reason, engine
    assert engine["running"] is None
    assert engine["gen_tok_s"] is None
    assert engine_verdict(answer)["verdict"] not in ("healthy", "idle")
    assert status in (1, 2)


def test_another_engine_is_named_and_its_metrics_are_not_asked_for(tmp_path: Path) -> None:
    routes = {
        "/version": json_reply({"version": "1.2.1"}),
        "/v1/models": json_reply({"data": [{"id": "m", "owned_by": "tensorrt_llm"}]}),
        "/metrics": Reply(200, "[]"),
    }
    with serve_in_thread(routes) as server:
        _, answer = once(server.url, home=tmp_path)
        asked = server.count("/metrics") + server.count("/perf_metrics")
    assert answer["engines"][0]["engine"] == "trtllm"
    assert asked == 0


def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    name = "[red]evil[/x]\x1b[31m\x1b]0;title\x07\u202e[/"
    with serve_in_thread(vllm(exposition(Rank(running=1)), model=name)) as server:
        _, answer = once(server.url, home=tmp_path)
        text = run("once", "--interval", "0.3", server.url, home=tmp_path)
    assert answer["engines"][0]["model"] == "[red]evil[/x][/"
    assert "[red]evil[/x][/" in text.out
    assert not any(c in text.out for c in "\x1b\x07\u202e")


def test_text_and_format(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    with serve_in_thread(vllm(exposition(Rank()))) as server:
        text = run("once", "--interval", "0.3", server.url, home=tmp_path, env=fake_nvml.environment())
        line = run(
            "once", "--interval", "0.3", "--format", "{verdict}|{scope}|{confidence}", server.url,
            home=tmp_path, env=fake_nvml.environment(),
        )  # fmt: skip
    assert text.status == 0
    assert text.out.startswith(f"IDLE  {server.url}")
    assert line.out.startswith(f"idle|{server.url}|")
    assert line.out.count("\n") == 1


def test_a_token_goes_to_its_own_engine_and_nowhere_into_the_answer(tmp_path: Path) -> None:
    with serve_in_thread(vllm(exposition(Rank()))) as server:
        (tmp_path / "c.toml").write_text(f'[[engines]]\nurl = "{server.url}"\ntoken_env = "MY_TOKEN"\n')
        ended = run(
            "once",
            "--json",
            "--interval",
            "0.3",
            "--config",
            "c.toml",
            home=tmp_path,
            env={"MY_TOKEN": "hunter2"},
        )
        sent = {request.headers.get("authorization") for request in server.requests}
    assert "Bearer hunter2" in sent
    assert "hunter2" not in ended.out + ended.err


def test_nothing_found_is_said_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[discovery]\nenabled = false\n")
    ended = run("once", "--interval", "0.3", "--config", "c.toml", home=tmp_path)
    assert ended.status == 2
    assert "none found on this host; name one" in ended.out


@pytest.mark.parametrize(("metrics", "reason"), [(Reply(500), "5xx"), (CUT, "reset")], ids=["500", "cut"])
def test_an_engine_whose_metrics_break_is_still_that_engine(
    tmp_path: Path, metrics: Handler, reason: str
) -> None:
    with serve_in_thread(vllm(metrics)) as server:
        _, answer = once(server.url, home=tmp_path)
        text = run("once", "--interval", "0.2", server.url, home=tmp_path).out
    (row,) = answer["engines"]
    assert (row["engine"], row["version"], row["model"]) == ("vllm", "0.32.0", "tiny-llama")
    assert row["reason"] == reason
    assert row["running"] is None
    probes = [(probe["kind"], probe["status"]) for probe in answer["probes"]]
    assert probes == [("liveness", 200), ("readiness", 200)]
    (line,) = [line for line in text.splitlines() if line.startswith("vllm")]
    assert "tiny-llama" in line


def test_a_flood_of_labels_is_cut_and_counted(tmp_path: Path) -> None:
    many = 3000
    flood = "".join(
        f'vllm:num_requests_waiting_by_reason{{engine="0",model_name="llama",reason="r{n}"}} {n}\n'
        for n in range(many)
    )
    ranks = "".join(
        f'vllm:num_requests_{which}{{engine="{n}",model_name="llama"}} 1\n'
        for which in ("running", "waiting")
        for n in range(1, many)
    )
    with serve_in_thread(vllm(exposition(Rank(running=1, waiting=1)) + flood + ranks)) as server:
        _, answer = once(server.url, home=tmp_path)
    (row,) = answer["engines"]
    assert row["running"] == many
    assert len(row["ranks"]) == 256
    assert len(row["waiting_by_reason"]) == 64
    assert row["waiting_by_reason"]["r2999"] == 2999
    (text,) = [found["text"] for found in answer["findings"] if found["id"] == "too-many-labels"]
    assert f"{many - 256} of ranks" in text
    assert "of waiting_by_reason" in text


def test_an_engine_that_never_answered_is_what_the_settings_call_it(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[[engines]]\nurl = "http://127.0.0.1:9"\nengine = "sglang"\n')
    status, answer = once("--config", "c.toml", home=tmp_path)
    (row,) = answer["engines"]
    assert (status, row["engine"], row["version"], row["reason"]) == (1, "sglang", None, "refused")
