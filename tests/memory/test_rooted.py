"""Links inside a container lead to the container's files, by the kernel's help and without it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from tests.support.model_dirs import config, write_config
from tui.memory import rooted
from tui.memory.errors import ModelError
from tui.memory.files import absent, open_regular
from tui.memory.model_files import read_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """A process with a root of its own."""
    for name in ("image/data", "image/models", "image/app", "outside", "proc/7"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/7/root").symlink_to(tmp_path / "image")
    (tmp_path / "proc/7/cwd").symlink_to(tmp_path / "image/app")
    return tmp_path / "proc/7"


@pytest.fixture(params=["openat2", "by hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by hand":

        def without(_root: str, _rest: str) -> int:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

        monkeypatch.setattr(rooted, "_open_in_root", without)


@pytest.mark.usefixtures("way")
def test_an_absolute_link_stays_inside(process: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    write_config(image / "data/llama", config("mistral-7b"))
    (image / "models/llama").symlink_to("/data/llama")
    (image / "data/llama/config.json").rename(image / "data/blob")
    (image / "data/llama/config.json").symlink_to("/data/blob")
    found = read_model({"model": "/models/llama"}, 7, str(tmp_path / "proc"))
    assert found.shape is not None
    assert found.device == (image / "data/llama").stat().st_dev


@pytest.mark.usefixtures("way")
def test_no_link_leads_out(process: Path, tmp_path: Path) -> None:
    secret = tmp_path / "outside/config.json"
    secret.write_text("{}")
    inside = process / "root/models"
    (inside / "absolute").symlink_to(secret)
    (inside / "climbing").symlink_to("../" * 30 + str(secret))
    for name in ("absolute", "climbing"):
        assert absent(inside / name)
        with pytest.raises(ModelError):
            open_regular(inside / name)
    write_config(tmp_path / "outside/model", config("mistral-7b"))
    (tmp_path / "image/models/out").symlink_to(tmp_path / "outside/model")
    for name in ("/models/out", str(tmp_path / "outside/model")):
        assert read_model({"model": name}, 7, str(tmp_path / "proc")).shape is None


@pytest.mark.usefixtures("way")
def test_a_circle_ends(process: Path, tmp_path: Path) -> None:
    (tmp_path / "image/models/a").symlink_to("/models/b")
    (tmp_path / "image/models/b").symlink_to("/models/a")
    with pytest.raises(ModelError, match="symbolic links"):
        open_regular(process / "root/models/a")
    with pytest.raises(OSError, match="symbolic links"):
        rooted.real(process / "root/models/a")


def test_a_folder_that_only_looks_like_a_process_is_a_persons_own(tmp_path: Path) -> None:
    (tmp_path / "5/root").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    (tmp_path / "5/root/link").symlink_to(tmp_path / "file")
    with open_regular(tmp_path / "5/root/link") as file:
        assert file.read() == b"x"
