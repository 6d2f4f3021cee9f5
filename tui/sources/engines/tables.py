"""The engines whose figures can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.sources.engines.sglang import SGLANG
from tui.sources.engines.triton import TRITON
from tui.sources.engines.trtllm import TRTLLM
from tui.sources.engines.vllm import VLLM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import EngineKind
    from tui.sources.engines.table import EngineTable

TABLES: Mapping[EngineKind, EngineTable] = {table.engine: table for table in (VLLM, SGLANG, TRTLLM, TRITON)}
