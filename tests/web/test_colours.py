"""The colours of the pages, from their style sheet: readable in both themes, and told apart by colour-blind people."""

from __future__ import annotations

import itertools
import re

import pytest

from trueline.report.html import asset

Colour = tuple[float, float, float]
TEXT, GRAPHIC = 4.5, 3.0
"""Contrast that WCAG AA asks of text and of what is drawn."""
ON_EVERYTHING = ("ink", "muted", "bad", "good", "warn", "forward", "backward")
DRAWN = ("victim", "limit", "focus")
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""How the linear colours look to people who lack one kind of cone (Machado, Oliveira and Fernandes 2009)."""


def themes() -> dict[str, dict[str, str]]:
    text = asset("page.css")
    light, dark = (re.search(pattern, text, re.DOTALL) for pattern in (r":root \{(.*?)\}", r'"dark"\] \{(.*?)\}'))
    assert light is not None and dark is not None
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part[1])) for part in (light, dark)]
    return {"light": found[0], "dark": found[0] | found[1]}


def linear(colour: str) -> Colour:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def luminance(colour: Colour) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(linear(one)), luminance(linear(other))))
    return (lighter + 0.05) / (darker + 0.05)


def lightness_and_hue(colour: Colour) -> Colour:
    """The place of a linear colour in OKLab, where distances are how different colours look."""
    red, green, blue = colour
    cones = (
        0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue,
        0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue,
        0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue,
    )
    long, middle, short = (max(cone, 0.0) ** (1 / 3) for cone in cones)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def seen(colour: str, blindness: str) -> Colour:
    given = linear(colour)
    red, green, blue = (sum(a * b for a, b in zip(row, given, strict=True)) for row in BLINDNESS[blindness])
    return lightness_and_hue((red, green, blue))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_drawings_stand_out(theme: str) -> None:
    colours = themes()[theme]
    for ground in ("paper", "card", "soft"):
        for name in ON_EVERYTHING:
            assert contrast(colours[name], colours[ground]) >= TEXT, f"{name} on {ground}"
    for name in ("bad", "good", "warn"):
        assert contrast(colours[name], colours[f"{name}-soft"]) >= TEXT, f"{name} on its own ground"
    for name in DRAWN:
        assert contrast(colours[name], colours["card"]) >= GRAPHIC, f"{name} on card"
    assert contrast(colours["paper"], colours["ink"]) >= TEXT, "the tip is drawn in reverse"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colours_that_mean_something_differ_for_colour_blind_people(theme: str, blindness: str) -> None:
    colours = themes()[theme]
    for one, other in itertools.combinations(("bad", "good", "forward", "backward"), 2):
        apart = sum(
            (a - b) ** 2 for a, b in zip(seen(colours[one], blindness), seen(colours[other], blindness), strict=True)
        )
        assert apart**0.5 >= 0.05, f"{one} and {other}"


def test_no_verdict_is_told_by_colour_alone() -> None:
    """Each look of a verdict has a mark, and no two that differ in meaning share look and mark."""
    looks = re.findall(r'(\w+): \["(\w+)", "(.)", say\(', asset("common.js"))
    assert [name for name, _, _ in looks] == ["PASS", "WARN", "NOT_COMPARED", "FAIL", "ERROR"]
    assert len({mark for _, _, mark in looks}) == 4


def test_the_sums_are_right() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert lightness_and_hue(linear("#ffffff")) == pytest.approx((1.0, 0.0, 0.0), abs=1e-3)
