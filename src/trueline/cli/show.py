"""``trueline show``: what is in a Run, or one of its calls."""

from __future__ import annotations

import argparse
from typing import Any

from trueline.cli.incomplete import tell_incomplete
from trueline.cli.options import EXIT_CLEAN, Parser, add_json
from trueline.errors import UsageError
from trueline.graphs import PREFIX
from trueline.records import Call
from trueline.report.blocks import BLANK, Block, line
from trueline.report.inside_text import graph_blocks, graphs_table
from trueline.report.json import call_dict, dumps, plain, run_dict
from trueline.report.showing import call_blocks, forward_of, matches_table, run_blocks, summarize_run
from trueline.report.terminal import write
from trueline.report.wording import plural
from trueline.store import Run, Trace, open_run

_WHOLE_CALLS = 4
"""So many calls are shown whole; more are listed."""
_LISTED_CALLS = 40


def parser() -> Parser:
    options = Parser(
        "show",
        "RUN [CALL] [options]",
        "Prints what is in a Run, or one of its calls with arguments, statistics and source.",
        "trueline show runs/bad torch.nn.functional.gelu.2 --step 2 --stack",
    )
    options.add_argument("run", metavar="RUN", help="the folder of a Run")
    options.add_argument(
        "call", metavar="CALL", nargs="?", help="a call: torch.relu.3.forward, torch.relu.3, torch.relu or #812"
    )
    options.add_argument("--step", type=int, metavar="N", help="only this step")
    options.add_argument("--rank", type=int, metavar="N", help="only this rank")
    options.add_argument("--stack", action="store_true", help="show the whole stack")
    options.add_argument(
        "--save", metavar="FOLDER", help="keep the tensors of the call, and a script that makes it again"
    )
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    with open_run(options.run) as opened:
        _check_step(opened, options)
        if options.call is None and options.save is not None:
            raise UsageError("--save keeps one call: name it; without CALL the APIs are listed")
        if options.call is None:
            _show_run(opened, options)
        else:
            tell_incomplete(opened)
            _show_calls(opened, options)
    return EXIT_CLEAN


def _check_step(opened: Run, options: argparse.Namespace) -> None:
    if options.step is None:
        return
    ranks = opened.ranks if options.rank is None else (options.rank,)
    steps = sorted({step for rank in ranks for step in opened.rank(rank).steps})
    if options.step not in steps:
        known = ", ".join(map(str, steps[:20])) or "none"
        raise UsageError(f"{opened.path} has no step {options.step}; it has {known}{' ...' if len(steps) > 20 else ''}")


def _show_run(opened: Run, options: argparse.Namespace) -> None:
    summary = summarize_run(opened, step=options.step, rank=options.rank)
    if options.json:
        content = run_dict(opened.path, opened.info, summary.certificates)
        content |= {"calls": summary.calls, "bytes": summary.bytes_on_disk, "steps": plain(summary.steps)}
        content |= {"ranks": list(opened.ranks), "apis": plain(summary.apis)}
        content |= {"graphs": [plain(graph) for rank in opened.ranks for graph in opened.rank(rank).graphs()]}
        print(dumps(content))
    else:
        graphs = [graph for rank in opened.ranks for graph in opened.rank(rank).graphs()]
        write([*run_blocks(opened, summary), *graphs_table(graphs)])


def _show_calls(opened: Run, options: argparse.Namespace) -> None:
    found: list[tuple[Trace, list[int]]] = []
    for rank in opened.ranks if options.rank is None else (options.rank,):
        trace = opened.rank(rank).trace(options.step)
        found.append((trace, trace.find(options.call)))
    total = sum(len(positions) for _, positions in found)
    if not total:
        where = "" if options.step is None else f" in step {options.step}"
        raise UsageError(f"{opened.path} has no call {options.call!r}{where}; without CALL the APIs are listed")
    if options.save is not None:
        _save(opened, found, total, options)
    elif options.json:
        _print_json(found, total)
    elif total <= _WHOLE_CALLS:
        _print_whole(opened, found, options.stack)
    else:
        _print_list(found, total, options.call)


def _save(opened: Run, found: list[tuple[Trace, list[int]]], total: int, options: argparse.Namespace) -> None:
    from trueline.diagnose.saving import SCRIPT, save_call

    if total > 1:
        raise UsageError(
            f"{total} calls match {options.call!r}: --save keeps one; name it whole, with --step and --rank"
        )
    trace, (position,) = next((trace, positions) for trace, positions in found if positions)
    saved = save_call(opened.rank(trace.rank), trace.call(position), options.save)
    if options.json:
        files = [str(file) for file in saved.files]
        print(
            dumps({"folder": str(saved.folder), "files": files, "tensors": saved.tensors, "no_script": saved.no_script})
        )
        return
    blocks: list[Block] = [line(f"{plural(saved.tensors, 'tensor')} in {saved.folder}", "strong")]
    told = f"no script: {saved.no_script}" if saved.no_script else f"python {saved.folder / SCRIPT}"
    write([*blocks, line(told, "dim" if saved.no_script else "code", indent=2)])


def _print_json(found: list[tuple[Trace, list[int]]], total: int) -> None:
    """The calls whole where they are few, else named, always as one JSON list."""
    whole = total <= _LISTED_CALLS
    separator = "["
    for trace, positions in found:
        for position in positions:
            call = trace.call(position, statistics=whole)
            content: dict[str, Any] = call_dict(call, tensors=whole)
            print(separator + dumps(content), end="")
            separator = ",\n"
    print("]")


def _print_whole(opened: Run, found: list[tuple[Trace, list[int]]], whole_stack: bool) -> None:
    blocks: list[Block] = []
    for trace, positions in found:
        for position in positions:
            call: Call = trace.call(position)
            forward = forward_of(opened.rank(trace.rank), call)
            blocks += [*([BLANK] if blocks else []), *call_blocks(call, forward, whole_stack=whole_stack)]
            if call.api.startswith(PREFIX):
                blocks += graph_blocks([one for one in opened.rank(trace.rank).graphs() if one.name == call.api])
    write(blocks)


def _print_list(found: list[tuple[Trace, list[int]]], total: int, name: str) -> None:
    blocks: list[Block] = [line(f"{plural(total, 'call')} match {name!r}; name one of them to see it", "strong")]
    left = _LISTED_CALLS
    for trace, positions in found:
        if positions and left:
            blocks.append(matches_table(trace, positions, left))
            left -= min(left, len(positions))
    if total > _LISTED_CALLS:
        blocks.append(line(f"and {total - _LISTED_CALLS:,} more; --step and --rank narrow the search", "dim", indent=2))
    write(blocks)
