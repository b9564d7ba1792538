"""Numbers of threads."""

from __future__ import annotations

import threading

from trueline.frameworks.threads import thread_number


def test_the_main_thread_is_the_first() -> None:
    assert thread_number() == 0


def test_a_thread_keeps_its_number_and_no_other_gets_it() -> None:
    found: list[tuple[int, int]] = []
    for _ in range(20):  # one after the other: the system gives them the same identity
        thread = threading.Thread(target=lambda: found.append((thread_number(), thread_number())))
        thread.start()
        thread.join()
    assert all(first == second for first, second in found)
    assert len({first for first, _ in found}) == 20
