"""The page of a file of rows: complete by itself, and right in its pictures."""

import base64
import html.parser
import io

import pytest
from _bench import FakeSuite, row
from go_bench import pictures, report
from PIL import Image

from grappler_go.errors import BadInput


def _found():
    return [
        row(workload=name, method=method, step_s=step_s, peak_bytes=(1e9,), curve=curve, last=True)
        for name in ("a", "b<c>")
        for method, step_s, curve in (
            ("go", 0.5, ((0, 1.0), (1, 0.8), (10, 0.5))),
            ("metis", None, ()),
            ("tf_default", 1.0, ()),
        )
    ]


class Page(html.parser.HTMLParser):
    """What a page shows and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.shown, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.shown.append(data)


def test_the_page_needs_no_other_file(tmp_path):
    out = tmp_path / "new" / "out"
    written = report.write(FakeSuite(), _found(), out, source="my rows.jsonl")
    assert [path.name for path in written] == [
        "report.html",
        "speedup.png",
        "search.png",
        "memory.png",
    ]
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in written)
    page = Page(written[0].read_text())
    assert page.open == []
    prefix = "data:image/png;base64,"
    embedded = [base64.b64decode(source.removeprefix(prefix)) for source in page.sources]
    assert embedded == [path.read_bytes() for path in written[1:]]
    shown = "".join(page.shown)
    assert "grappler-go bench replay 'my rows.jsonl'" in shown
    assert "b<c> train tiny" in shown
    assert "OOM" in shown


def test_how_to_run_it_again_is_what_was_run():
    found = [row(settings={"workloads": ["a", "b"], "methods": [], "devices": "p100", "seeds": 2})]
    assert report.commands(FakeSuite(), found, "out/r.jsonl") == [
        "grappler-go bench run --suite fake --workloads a,b --devices p100 --seeds 2 "
        "--out r-again.jsonl",
        "grappler-go bench replay out/r.jsonl",
        "grappler-go bench summary out/r.jsonl",
    ]


def test_pictures_of_what_there_is(tmp_path):
    bare = [row(method=name, step_s=1.0) for name in ("go", "tf_default")]
    written = report.write(FakeSuite(), bare, tmp_path, source="r.jsonl")
    assert [path.name for path in written] == ["report.html", "speedup.png"]
    assert pictures.searches(bare) is None
    assert pictures.peaks(bare) is None
    assert pictures.speedups(bare[:1], "go") is None


def test_the_longer_bar_is_the_faster_method():
    """Counts the pixels of the bars: three times as fast is three times as many."""

    def blue(step_s):
        found = [row(method="go", step_s=step_s), row(method="tf_default", step_s=3.0)]
        found += [row(method="x", step_s=0.5)]  # Keeps the axis.
        image = Image.open(io.BytesIO(pictures.speedups(found, "tf_default"))).convert("RGB")
        return sum(count for count, colour in image.getcolors(1 << 20) if colour == (68, 119, 170))

    assert blue(1.0) / blue(3.0) == pytest.approx(3.0, rel=0.05)


def test_rows_without_steps_have_a_page_of_figures(tmp_path):
    written = report.write(FakeSuite(), [row(timed=False)], tmp_path, source="r.jsonl")
    assert [path.name for path in written] == ["report.html"]
    assert "count" in written[0].read_text()


def test_wrong_inputs_are_named(tmp_path):
    with pytest.raises(BadInput, match="--baseline hdp: no such method in r.jsonl"):
        report.write(FakeSuite(), _found(), tmp_path, source="r.jsonl", baseline="hdp")
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(BadInput, match="file: File exists"):
        report.write(FakeSuite(), _found(), taken, source="r.jsonl")
