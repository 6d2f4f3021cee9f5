from __future__ import annotations

import pytest

from tui.probing.outcomes import (
    MAX_REQUESTS,
    Body,
    Outcome,
    RedirectError,
    exec_outcome,
    http_outcome,
    next_url,
    tcp_outcome,
)

FIRST = "http://10.0.0.7:8000/health"


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, "whole", Outcome.SUCCESS),
        (299, "whole", Outcome.SUCCESS),
        (300, "whole", Outcome.WARNING),
        (399, "whole", Outcome.WARNING),
        (400, "whole", Outcome.FAILURE),
        (503, "whole", Outcome.FAILURE),
        (199, "whole", Outcome.FAILURE),
        (200, "over_limit", Outcome.SUCCESS),
        (503, "over_limit", Outcome.FAILURE),
        (200, "unfinished", Outcome.DISCARDED),
        (503, "unfinished", Outcome.DISCARDED),
    ],
)
def test_an_answer_is_judged_by_status_and_body(status: int, body: Body, outcome: Outcome) -> None:
    assert http_outcome(status, body) is outcome


@pytest.mark.parametrize(
    ("status", "location", "target"),
    [
        (302, "/ready", "http://10.0.0.7:8000/ready"),
        (307, "http://10.0.0.7:9000/x", "http://10.0.0.7:9000/x"),
        (308, "https://10.0.0.7/x", "https://10.0.0.7/x"),
        (302, "http://elsewhere:8000/x", None),
        (302, None, None),
        (302, "", None),
        (302, "http://[", None),
        (304, "/ready", None),
        (200, "/ready", None),
    ],
)
def test_only_redirects_to_the_same_host_name_are_followed(
    status: int, location: str | None, target: str | None
) -> None:
    assert next_url(FIRST, FIRST, status, location, 1) == target


def test_the_host_name_is_compared_with_the_probes_own_not_with_the_last() -> None:
    assert next_url(FIRST, "http://10.0.0.7:9000/x", 302, "y", 2) == "http://10.0.0.7:9000/y"


def test_a_redirect_loop_is_a_failure() -> None:
    made, url = 1, FIRST
    with pytest.raises(RedirectError, match="10 redirects"):
        while made < 20:
            url = next_url(FIRST, url, 302, "/health", made) or ""
            made += 1
    assert made == MAX_REQUESTS


def test_another_scheme_fails() -> None:
    with pytest.raises(RedirectError):
        next_url(FIRST, FIRST, 302, "ftp://10.0.0.7/x", 1)


def test_exec_and_tcp() -> None:
    assert exec_outcome(0) is Outcome.SUCCESS
    assert exec_outcome(1) is Outcome.FAILURE
    assert exec_outcome(None) is Outcome.FAILURE
    assert tcp_outcome(True) is Outcome.SUCCESS
    assert tcp_outcome(False) is Outcome.FAILURE
    assert Outcome.WARNING.passed
    assert not Outcome.DISCARDED.passed
