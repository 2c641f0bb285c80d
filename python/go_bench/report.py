"""A file of rows as a page: tables, pictures, and how to run it again."""

from __future__ import annotations

import base64
import html
import pathlib
import shlex
import typing
from collections.abc import Mapping, Sequence

from go_bench import pictures, summary, tables
from go_bench.rows import Row
from go_bench.runner import Suite
from go_bench.tables import Table
from grappler_go import files
from grappler_go.errors import BadInput

PAGE = "report.html"

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; margin: .5em 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .15em .8em .15em 0; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
pre { background: #f4f4f4; overflow-x: auto; padding: .7em; }
.note { color: #555; } .warning { color: #a33; }
"""


def write(
    suite: Suite,
    rows: Sequence[Row],
    directory: pathlib.Path,
    *,
    source: str,
    baseline: str | None = None,
) -> list[pathlib.Path]:
    """Writes the page, which holds its pictures itself, and the pictures beside it as PNG.

    Args:
      suite: the rows' own.
      rows: at least one.
      directory: for the files; it is made if it is not there.
      source: the file of the rows, for the commands on the page.
      baseline: the method to compare with; None = the suite's usual one.

    Returns:
      The files, the page first.

    Raises:
      BadInput: no row is of the baseline, or a file cannot be written.
    """
    chosen = summary.baseline_of(rows, baseline, source)
    drawn = {
        "speedup": None if chosen is None else pictures.speedups(rows, chosen),
        "search": pictures.searches(rows),
        "memory": pictures.peaks(rows),
    }
    images = {name: png for name, png in drawn.items() if png is not None}
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{directory}: {error.strerror}") from error
    for name, png in images.items():
        files.write_atomically(directory / f"{name}.png", png)
    text = page(suite, rows, images, source=source, baseline=chosen)
    files.write_atomically(directory / PAGE, text)
    return [directory / PAGE, *(directory / f"{name}.png" for name in images)]


def page(
    suite: Suite,
    rows: Sequence[Row],
    images: Mapping[str, bytes],
    *,
    source: str,
    baseline: str | None,
) -> str:
    """Returns the page as HTML that needs no other file."""
    result = summary.summarize(suite, rows)
    shown = tables.tables(result, baseline)
    body = [
        f"<h1>{_text(suite.name)}</h1><p>{_text(suite.description)}</p>",
        *(f'<p class="warning">{_text(warning)}</p>' for warning in result["warnings"]),
        *(_table(table) for table in shown[:1]),
        *(_image(name, png) for name, png in images.items()),
        *(_table(table) for table in shown[1:]),
        "<h2>Run it again</h2>",
        f"<pre>{_text(chr(10).join(commands(suite, rows, source)))}</pre>",
        _table(_versions(rows)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{_text(suite.name)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def commands(suite: Suite, rows: Sequence[Row], source: str) -> list[str]:
    """Returns the commands that make such rows, check these, and say what they amount to."""
    settings = rows[0].settings
    run = ["grappler-go", "bench", "run", "--suite", suite.name]
    for name in ("workloads", "methods", "devices", "seeds", "preset"):
        value = settings.get(name)
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        run += [f"--{name}", str(value)] if value else []
    again = f"{pathlib.PurePath(source).stem}-again.jsonl"
    return [
        shlex.join([*run, "--out", again]),
        shlex.join(["grappler-go", "bench", "replay", source]),
        shlex.join(["grappler-go", "bench", "summary", source]),
    ]


def _versions(rows: Sequence[Row]) -> Table:
    names = dict.fromkeys(name for row in rows for name in row.versions)
    body = tuple(
        (name, ", ".join(dict.fromkeys(row.versions.get(name, "none") for row in rows)))
        for name in names
    )
    return Table(title="Versions", head=("software", "version"), body=body)


def _table(table: Table) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"

    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    body = "\n".join(line("td", row) for row in table.body)
    return f"<h2>{_text(table.title)}</h2>\n<table>{line('th', table.head)}\n{body}</table>{note}"


def _image(name: str, png: bytes) -> str:
    data = base64.b64encode(png).decode()
    return f'<p><img alt="{_text(name)}" src="data:image/png;base64,{data}"></p>'


def _text(value: typing.Any) -> str:
    return html.escape(str(value))
