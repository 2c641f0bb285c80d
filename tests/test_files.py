"""Files are read and written whole, and errors name them."""

import os
import stat
import threading

import pytest

from grappler_go import errors, files
from grappler_go.errors import BadInput


def test_text_and_bytes_come_back(tmp_path):
    path = tmp_path / "file"
    for content in ("text: ä\n", b"\xff\x00", ""):
        files.write_atomically(path, content)
        read = files.read_text if isinstance(content, str) else files.read_bytes
        assert read(path) == content
        assert read(str(path)) == content
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_mode_is_that_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    files.write_atomically(tmp_path / "written", "")
    modes = {stat.S_IMODE(os.stat(each).st_mode) for each in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(BadInput, match=f"^{path}: No space left on device$"):
        files.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_reader_sees_no_part(tmp_path):
    path = tmp_path / "file"
    contents = [str(digit) * 100_000 for digit in range(4)]
    files.write_atomically(path, contents[0])

    def write(content):
        for _ in range(50):
            files.write_atomically(path, content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert files.read_text(path) in contents
    for writer in writers:
        writer.join()


def test_what_cannot_be_read_or_written_is_named(tmp_path):
    with pytest.raises(BadInput, match=f"^{tmp_path}/none: No such file or directory$"):
        files.read_bytes(tmp_path / "none")
    with pytest.raises(BadInput, match=f"^{tmp_path}/none/file: No such file or directory$"):
        files.write_atomically(tmp_path / "none" / "file", "")
    with pytest.raises(BadInput, match=f"^{tmp_path}: Is a directory$"):
        files.read_bytes(tmp_path)
    (tmp_path / "binary").write_bytes(b"ab\xff")
    with pytest.raises(BadInput, match="binary: not text: invalid start byte at byte 2$"):
        files.read_text(tmp_path / "binary")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{{function_node __wrapped__Op_device_/x:0}} a is 1 [Op:GrapplerGoOpen]", "a is 1"),
        ("{{function_node a}} {{node b}} two\nlines\n", "two lines"),
        ("a [0] {{b}} [Op", "a [0] {{b}} [Op"),
    ],
)
def test_messages_of_tensorflow_in_one_line(message, words):
    assert errors.plain(message) == words
