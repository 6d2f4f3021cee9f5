from __future__ import annotations

import pytest

from tui.model.urls import host_port, parse_metrics_url, parse_url, short_name, unix_socket


@pytest.mark.parametrize(
    ("text", "url", "host", "port", "short"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "127.0.0.1", 8000, ":8000"),
        ("localhost:8000/", "http://localhost:8000", "localhost", 8000, ":8000"),
        (
            "https://Gpu-07.example/llm/",
            "https://gpu-07.example/llm",
            "gpu-07.example",
            443,
            "gpu-07.example:443",
        ),
        ("http://[::1]:9", "http://[::1]:9", "::1", 9, ":9"),
        ("http://[fe80::2]:30000", "http://[fe80::2]:30000", "fe80::2", 30000, "[fe80::2]:30000"),
        ("10.0.0.7", "http://10.0.0.7", "10.0.0.7", 80, "10.0.0.7:80"),
    ],
)
def test_canonical_form(text: str, url: str, host: str, port: int, short: str) -> None:
    assert parse_url(text) == url
    assert host_port(url) == (host, port)
    assert short_name(url) == short


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://x",
        "http://",
        "http://:8000",
        "http://x:0",
        "http://x:99999",
        "http://x:port",
        "http://user:secret@x:1",
        "http://x/?key=1",
        "http://x/#a",
        "http://x y",
        "http://x\x1b[31m",
        "http://[::1",
        "8000",
        "http://x/\u00fc",
        "http://\udcff:80",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_url(text)


def test_a_refused_address_does_not_quote_its_credentials() -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_url("http://user:hunter2@x:1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("unix:///run/a.sock", "http+unix://%2Frun%2Fa.sock", "/run/a.sock"),
        ("http+unix://%2Frun%2Fa.sock/stats/", "http+unix://%2Frun%2Fa.sock/stats", "/run/a.sock"),
        ("http://127.0.0.1:8002/metrics", "http://127.0.0.1:8002/metrics", None),
    ],
)
def test_metrics_may_be_behind_a_unix_socket(text: str, url: str, path: str | None) -> None:
    assert parse_metrics_url(text) == url == parse_metrics_url(url)
    assert unix_socket(url) == path


@pytest.mark.parametrize(
    "text", ["unix://host/a.sock", "unix:", "unix:///run/", "http+unix://a.sock/x", "unix:///a?x=1"]
)
def test_what_names_no_socket(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_metrics_url(text)
