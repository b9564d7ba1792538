"""Which cards a machine has, how many processes fit on each, and how engineV2 asks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trueline.compat import places
from trueline.compat.paddleapitest import engine
from trueline.compat.paddleapitest.engine import main, parser
from trueline.errors import UsageError


@pytest.fixture
def eight_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with eight GPUs of 80 GB, one of them taken, and 64 cores."""
    monkeypatch.setattr(engine, "gpus", lambda: 8)
    monkeypatch.setattr("trueline.campaign.machine.cores", lambda: 64)
    monkeypatch.setattr(engine, "free_memory", lambda: {card: 80.0 if card else 4.0 for card in range(8)})
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")  # and given back


@pytest.mark.parametrize(
    ("words", "cards"),
    [
        ("--num_gpus=-1 --num_workers_per_gpu=-1", [*range(1, 8)] * 8),  # all, by memory: 8 x 10 GB; card 0 is full
        ("--num_gpus=-1 --num_workers_per_gpu=-1 --required_memory=40", [*range(1, 8)] * 2),
        ("--num_gpus=2 --num_workers_per_gpu=1", [0, 1]),
        ("--gpu_ids=2-3 --num_workers_per_gpu=2", [2, 3, 2, 3]),
        ("--gpu_ids=0,5 --num_workers_per_gpu=3 --required_memory=50", [5]),
        ("--num_gpus=0 --num_workers_per_gpu=1", [3, 4]),
    ],
)
@pytest.mark.usefixtures("eight_cards")
def test_processes_are_shared_among_the_cards(words: str, cards: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")  # --num_gpus=0 alone asks it
    place = engine._place(parser().parse_args(words.split()))
    assert (place.target, place.reference) == ("paddle:gpu:0", "torch:cuda:0")
    assert list(place.cards) == cards[: place.workers] and len(cards) - len(place.cards) in (0, len(cards) - 64)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--gpu_ids=8", "there is no GPU 8: this machine has 8"),
        ("--num_gpus=9", "--num_gpus=9: this machine has 8"),
        ("--gpu_ids=0 --num_workers_per_gpu=-1", "GPU 0 has 4.0 GB free; --required_memory is 10 GB"),
    ],
)
@pytest.mark.usefixtures("eight_cards")
def test_what_cannot_be_had_is_said(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--accuracy=True", "--api_config=paddle.abs()", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_each_process_is_given_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as one can see without a GPU: the workers get the variables, one each."""
    given = {}

    def check(*words: object, **options: object) -> None:
        given.update(options)
        raise UsageError("seen")

    import trueline.campaign

    monkeypatch.setattr(trueline.campaign, "check", check)
    monkeypatch.setattr(engine, "gpus", lambda: 2)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")  # and given back
    assert main(["--accuracy=True", "--api_config=paddle.abs()", "--num_workers_per_gpu=1"]) == 2
    assert [place["CUDA_VISIBLE_DEVICES"] for place in given["places"]] == ["0", "1"]
    assert {place["CUDA_DEVICE_ORDER"] for place in given["places"]} == {"PCI_BUS_ID"}
    assert given["workers"] == 2 and os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_free_memory_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, 1000'\necho '1, 81000'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert places.free_memory() == pytest.approx({0: 1.048576, 1: 84.934656})
    program.write_text("#!/bin/sh\necho no devices\nexit 1\n", encoding="utf-8")
    assert places.free_memory() == {}
    program.unlink()
    assert places.free_memory() == {}
