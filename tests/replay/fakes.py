"""Jobs of every kind for workers: good ones and ones that kill their worker."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from trueline.replay.serve import Answer, Spent


def maker(setup: dict[str, Any], announce: Callable[[str], None]) -> Callable[[Any], Any]:
    seen: list[Any] = []
    if setup.get("refuse"):
        raise ValueError(setup["refuse"])
    if setup.get("die"):
        os._exit(9)

    def work(payload: Any) -> Any:
        announce("candidate")
        seen.append(payload)
        if setup.get("ledger"):
            with open(setup["ledger"], "a", encoding="utf-8") as file:
                file.write(f"{payload['key']}\n")
        return do(payload, seen)

    return work


def do(payload: dict[str, Any], seen: list[Any]) -> Any:
    what = payload["do"]
    if what == "segfault":
        ctypes.string_at(0)
    elif what == "segfault once":  # only where something ran before it, as after damage to the memory
        if len(seen) > 1:
            ctypes.string_at(0)
    elif what == "abort":
        os.write(2, b"assertion `x > 0` failed\n")
        os.abort()
    elif what == "hang":
        while True:
            time.sleep(1)
    elif what == "eat":  # never touched, so that only the limit on allocations can end it
        held = []
        while True:
            held.append(np.empty(50_000_000, np.uint8))
    elif what == "eat slowly":  # below the limit on allocations of one go, in small pieces that are really used
        pieces = []
        while True:
            pieces.append(os.urandom(1000) * 100)
    elif what in ("grow", "grow and hang"):  # as on a machine that is slow to give memory
        grown = []
        while what == "grow" or len(grown) < 3:
            grown.append(b"x" * 40_000_000)
            time.sleep(payload["rest"])
        time.sleep(60)
    elif what == "attach":
        return Answer([payload["value"]], '{"long":"text"}')
    elif what == "exit":
        sys.exit(3)
    elif what == "lose the device":
        raise Spent("CUDA error: device-side assert triggered")
    elif what == "vanish":
        os._exit(0)
    elif what == "raise":
        raise RuntimeError("no\nsuch thing")
    elif what == "noise":
        print("[1, {}]\n" * 1000, flush=True)
        os.write(1, b"\x00\xff\n")
        sys.stderr.write("noise\n" * 1000)
    elif what == "sleep":
        time.sleep(payload["seconds"])
    elif what == "pid":
        return os.getpid()
    elif what == "child":
        return os.spawnv(os.P_NOWAIT, "/bin/sleep", ["sleep", "60"])
    elif what == "big":
        return "x" * payload["size"]
    return payload.get("value")
