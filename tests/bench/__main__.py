"""``make bench``: what the program costs. ``python -m tests.bench [NAME ...]`` runs some of it.

Machines are shared: the bars are bytes, CPU seconds and ratios of one run, never elapsed time alone.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests.support.byte_code import keep_byte_code


def main(names: list[str]) -> int:
    found = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("__"))
    modules = [importlib.import_module(f"tests.bench.{name}") for name in found]
    benches = {module.__name__.rpartition(".")[2]: module for module in modules if hasattr(module, "results")}
    if unknown := set(names) - set(benches):
        print(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(benches)}")
        return 2
    held = True
    for name, module in benches.items():
        if names and name not in names:
            continue
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        for row in module.results():
            bar = "" if row.bar is None else f"bar {row.bar:g}"
            mark = "" if row.bar is None and row.ok else "ok" if row.ok else "MISSED"
            print(f"  {row.name:<58} {row.value:>10.2f} {row.unit:<10} {bar:<10} {mark}", flush=True)
            held = held and row.ok
    return 0 if held else 1


if __name__ == "__main__":
    keep_byte_code()
    sys.exit(main(sys.argv[1:]))
