"""A comparison as one HTML page that opens from disk, asks nothing of the network and can be mailed (see ``html``)."""

from __future__ import annotations

from typing import TextIO

from trueline.report.html import Layout, write_page
from trueline.report.page_data import page_data
from trueline.report.subject import ComparisonView
from trueline.report.verdict_wording import verdict_sentence

LAYOUT = Layout(
    "page.html",
    "call",
    (
        "chinese_comparison.js",
        "chinese_divergence.js",
        "data.js",
        "tree.js",
        "plot.js",
        "table.js",
        "plot_controls.js",
        "modules.js",
        "heatmap.js",
        "errors.js",
        "small_table.js",
        "origin.js",
        "details.js",
        "main.js",
    ),
    ("small_table.css", "comparison.css"),
)


def write_html(comparison: ComparisonView, stream: TextIO) -> None:
    """Writes the page."""
    write_page(stream, LAYOUT, title_of(comparison), page_data(comparison))


def title_of(comparison: ComparisonView) -> str:
    return f"{comparison.verdict.name.replace('_', ' ')}: {verdict_sentence(comparison)}"
