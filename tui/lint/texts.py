"""What the rules say: for each id its level, title, text and what to do instead.

``{}`` places are filled with the values of a hit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model.verdicts import Level

NEED_LOAD = "the load time (restart-test)"
NEED_PROBES = "the p99 of {path} (once --json under load)"
NEED_REQUEST = "the longest request (drain-test; once --json gives a lower bound)"
NEED_DRAIN = "the drain time (drain-test)"


@dataclass(frozen=True, slots=True)
class Prose:
    """The words of one rule."""

    level: Level
    title: str
    """Names the fault in a few words, for findings that could not be judged."""
    text: str
    instead: str


TEXTS: dict[str, Prose] = {
    "P01": Prose(
        "error",
        "restart loop while loading",
        "it loads in {load} s, but liveness can kill it after {budget} s: a restart loop while loading",
        "a startupProbe on the same route with periodSeconds 10, failureThreshold {failures}",
    ),
    "P02": Prose(
        "warning",
        "startup budget against the load time",
        "the startup probe allows {budget} s for a load that takes {load} s: longer ones are killed",
        "startupProbe failureThreshold {failures}",
    ),
    "P03": Prose(
        "error",
        "timeout against the measured latency",
        "a busy server looks dead: {path} takes {p99} s at p99, the {kind} timeout is {timeout} s",
        "timeoutSeconds {better}",
    ),
    "P04": Prose(
        "warning",
        "timeout of 1 s",
        "the {kind} timeout of 1 s is too short for a busy server",
        "timeoutSeconds 5 to 10 (SGLang's /health: 25)",
    ),
    "P05": Prose(
        "warning",
        "liveness against readiness",
        "a hung pod is killed within {kill} s, no later than readiness takes it out of service ({unready} s)",
        "a larger failureThreshold or period for liveness than for readiness",
    ),
    "P06": Prose(
        "error",
        "liveness against one long step",
        "liveness kills after {kill} s, one engine step takes {step} s",
        "a larger failureThreshold, so that liveness outlasts the longest step",
    ),
    "P07": Prose(
        "warning",
        "liveness kills on one miss",
        "one slow answer kills the server and its GPU state",
        "failureThreshold 3 or more",
    ),
    "P08": Prose(
        "warning",
        "a probe that cannot fail",
        "the {kind} probe does not see a hang: {why}",
        "the engine's health route: vLLM /health, SGLang /ready or /health, Triton /v2/health/ready",
    ),
    "P09": Prose(
        "warning",
        "/health as the only signal",
        "vLLM's /health stays 200 over a hung engine core: no probe here would ever notice",
        "an exec probe that checks progress (infertop check --as liveness), or an outside canary",
    ),
    "P10": Prose(
        "error",
        "generation as liveness",
        "{path} generates a token behind the users' requests: liveness kills at peak load",
        "timeoutSeconds {better}, or a route that does not queue",
    ),
    "P11": Prose(
        "warning",
        "SGLang's /health against its own wait",
        "the {kind} probe on {path} {what}: it generates a token, takes 1 s at least and waits up to 20 s",
        "/ready for readiness (0.5.20 and later); for liveness periodSeconds 25, timeoutSeconds 25",
    ),
    "P12": Prose(
        "info",
        "timeout above the period",
        "the {kind} timeout of {timeout} s is also its spacing: a hang is noticed after up to {worst} s",
        "a period of at least the timeout",
    ),
    "P13": Prose(
        "warning",
        "slow detection by readiness",
        "requests go into a hung server for up to {worst} s",
        "a shorter period or a smaller failureThreshold for readiness",
    ),
    "P14": Prose(
        "error",
        "readiness under load",
        "readiness fails while tokens flow: under load the whole pool can leave the Service together",
        "a longer timeout or a larger failureThreshold for readiness",
    ),
    "P15": Prose(
        "error",
        "no readiness probe",
        "without a readinessProbe it gets traffic while it loads",
        "a readinessProbe: vLLM /health, SGLang /ready, Triton /v2/health/ready",
    ),
    "P16": Prose(
        "error",
        "readiness before the first token",
        "{path} answers 200 before the engine can generate",
        "a route that waits for the engine: vLLM /health, SGLang /ready, Triton /v2/health/ready",
    ),
    "P17": Prose(
        "info",
        "initial delay beside a startup probe",
        "the initial delay of {kind} only adds to the startup probe's wait",
        "no initialDelaySeconds",
    ),
    "P18": Prose(
        "error", "rejected by the API", "the API server rejects the {kind} probe: {what}", "a valid probe"
    ),
    "P19": Prose(
        "info",
        "several successes",
        "after a recovery traffic waits {more} s more",
        "successThreshold 1",
    ),
    "P20": Prose(
        "warning",
        "costly exec probe",
        "the {kind} probe starts {command} every few seconds: CPU cost, and processes pile up on a timeout",
        "httpGet, or a period of 30 s",
    ),
    "P21": Prose(
        "error",
        "probe of another address",
        "the {kind} probe cannot reach the server: {reason}",
        "the server's own port and scheme, and --host 0.0.0.0",
    ),
    "P22": Prose(
        "error",
        "authentication on the route",
        "{path} wants a key, which the {kind} probe does not send",
        "a route without authentication, such as /health",
    ),
    "P23": Prose(
        "warning",
        "redirect",
        "{path} redirects, which the kubelet counts as a success",
        "the route that it redirects to",
    ),
    "D01": Prose(
        "error",
        "the longest request against the window",
        "requests take up to {longest} s and are cut by SIGKILL (exit 137)",
        "terminationGracePeriodSeconds (or the unit's TimeoutStopSec) {better}",
    ),
    "D02": Prose(
        "error",
        "the drain against the window",
        "the engine's drain does not fit before SIGKILL: {room} for its exit",
        "{advice}",
    ),
    "D03": Prose(
        "error",
        "requests lost on SIGTERM",
        "on SIGTERM running requests are lost (their streams may stay open and silent): {why}",
        "vLLM 0.18 or later with --shutdown-timeout N, N + preStop + 10 within the grace period",
    ),
    "D04": Prose(
        "warning",
        "preStop against the removal from traffic",
        "new requests still arrive when the server stops: preStop takes {hook} s",
        "preStop: sleep {better}",
    ),
    "D05": Prose(
        "error",
        "preStop takes the whole grace period",
        "only 2 s remain between the stop signal and SIGKILL",
        "terminationGracePeriodSeconds {better}",
    ),
    "D06": Prose(
        "warning",
        "no preStop",
        "the port closes as soon as the pod is deleted: refused connections during every rollout",
        "preStop: sleep 10",
    ),
    "D07": Prose(
        "error",
        "SIGTERM does not arrive",
        "SIGTERM ends at a shell: the server never sees it and is killed after the full grace period",
        "exec before the server's command, or an init",
    ),
    "D08": Prose(
        "warning",
        "long grace period for a hang",
        "a hung container blocks for {grace} s before it is killed",
        "livenessProbe terminationGracePeriodSeconds 30",
    ),
    "D09": Prose(
        "warning",
        "preStop that waits",
        "the preStop hook also runs when liveness kills a hung server, which never gets idle",
        "a limit in the loop, well below the grace period",
    ),
    "D10": Prose(
        "warning",
        "readiness after SIGTERM",
        "readiness stays 200 in the drain: a router that goes by it learns late",
        "a preStop sleep that covers the removal",
    ),
    "D11": Prose(
        "warning",
        "gateway limits",
        "the gateway {what}",
        "a read timeout above the longest request, a deregistration delay below the grace period",
    ),
    "D12": Prose(
        "error",
        "Docker's stop timeout",
        "docker stop kills after {grace} s, before the requests end",
        "stop_grace_period: {better}s",
    ),
    "D13": Prose("warning", "KillMode", "the unit's KillMode {what}", "KillMode=mixed"),
    "D14": Prose(
        "error",
        "GPU memory at the next start",
        "the next start finds GPU memory taken, and fails its memory check",
        "an init that reaps, KillMode=mixed, or a restart delay until the memory is free",
    ),
    "R01": Prose(
        "error",
        "rollout deadlock",
        "a rollout needs {peak} GPUs of {gpus}: the new pod stays Pending, the old one stays for ever",
        "maxSurge 0 with maxUnavailable 1, or strategy Recreate",
    ),
    "R02": Prose(
        "warning",
        "replicas left in a rollout",
        "a rollout leaves {left} pods: an outage for as long as one loads",
        "GPUs for one more pod with maxSurge 1, maxUnavailable 0",
    ),
    "R03": Prose(
        "warning",
        "progress deadline",
        "a rollout is reported as failed (ProgressDeadlineExceeded) while the pod still loads",
        "progressDeadlineSeconds {better}",
    ),
    "R04": Prose(
        "warning",
        "warm-up",
        "it is ready before it is warm: the first request takes {first} s",
        "a warm-up request before readiness passes",
    ),
    "R05": Prose(
        "warning",
        "start on a cold node",
        "the probe's budget holds only while the page cache is warm: a cold load takes {cold} s",
        "a budget for the cold load",
    ),
    "R06": Prose(
        "info",
        "one replica",
        "with one replica every restart is an outage of at least the load time",
        "two replicas and a PodDisruptionBudget",
    ),
    "B01": Prose(
        "warning",
        "healthcheck without an actor",
        "Docker never restarts an unhealthy container: a hang stays",
        "a process that restarts it (autoheal, a systemd unit), or an outside check",
    ),
    "B02": Prose(
        "warning",
        "no restart",
        "nothing starts it again after a crash",
        "restart: unless-stopped (Compose), Restart=always (systemd), restartPolicy Always",
    ),
    "B03": Prose(
        "warning",
        "restart only on failure",
        "it stays down: a server whose engine has died exits with 0, which is no failure",
        "always",
    ),
    "B04": Prose(
        "warning",
        "start period against the load time",
        "it is unhealthy while it still loads",
        "start_period: {better}s",
    ),
    "B05": Prose(
        "warning",
        "small /dev/shm",
        "{size} MiB of shared memory for several ranks: bus errors (exit 135)",
        "shm_size: 8gb; under Kubernetes an emptyDir with medium Memory at /dev/shm",
    ),
}
