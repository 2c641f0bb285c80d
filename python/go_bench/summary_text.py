"""Tables for people: by `rich` on a terminal, plain in a pipe, or in Markdown."""

from __future__ import annotations

import io
from collections.abc import Sequence

import rich.box
import rich.console
import rich.table

from go_bench.tables import Table

_PIPE_WIDTH = 1000  # Nothing is wrapped where nobody looks at the lines' ends.


def to_text(
    heading: str, tables: Sequence[Table], warnings: Sequence[str], *, width: int | None = None
) -> str:
    """Returns the tables as text.

    Args:
      heading: above all.
      tables: what to show.
      warnings: printed after them, a line each.
      width: of the terminal in characters; None = it goes into a pipe, plain.
    """
    out = io.StringIO()
    console = rich.console.Console(
        file=out,
        force_terminal=width is not None,
        width=width or _PIPE_WIDTH,
        markup=False,  # "[ms]" is no style, and ":GPU:" no picture.
        emoji=False,
        highlight=False,
    )
    console.print(heading)
    for table in tables:
        console.print()
        console.print(table.title, style="bold")
        console.print(_rich(table))
        if table.note:
            console.print(table.note, style="dim")
    if warnings:
        console.print()
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow")
    # Plain cells are padded to the width of their column.
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def to_markdown(heading: str, tables: Sequence[Table], warnings: Sequence[str]) -> str:
    """Returns the tables as a section of a document."""
    lines = [f"## {heading}"]
    for table in tables:
        lines += ["", f"### {table.title}", "", *_markdown(table)]
        if table.note:
            lines += ["", table.note]
    if warnings:
        lines += ["", *(f"- Warning: {warning}" for warning in warnings)]
    return "\n".join(lines) + "\n"


def _rich(table: Table) -> rich.table.Table:
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(table.head):
        drawn.add_column(name, justify="left" if _is_words(table, number) else "right")
    for row in table.body:
        drawn.add_row(*row)
    return drawn


def _markdown(table: Table) -> list[str]:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (table.head, *table.body)]
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(table.head))]
    words = [_is_words(table, column) for column in range(len(table.head))]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, words, strict=True)
        return "| " + " | ".join(c.ljust(w) if left else c.rjust(w) for c, w, left in cells) + " |"

    rule = ["-" * width + ("-" if left else ":") for width, left in zip(widths, words, strict=True)]
    return [line(rows[0]), "|" + "|".join(f"-{each}" for each in rule) + "|", *map(line, rows[1:])]


def _is_words(table: Table, column: int) -> bool:
    """Whether a column is of words, which stand at the left; figures stand at the right."""
    return column == 0 or not any(row[column][:1].isdigit() for row in table.body)
