"""Reading and writing whole files, with errors that name the file."""

import os
import pathlib
import threading

from grappler_go.errors import BadInput

Path = str | os.PathLike[str]


def read_bytes(path: Path) -> bytes:
    """Returns what is in the file.

    Raises:
      BadInput: the file cannot be read.
    """
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def read_text(path: Path) -> str:
    """Returns the UTF-8 text in the file.

    Raises:
      BadInput: the file cannot be read, or is not text.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not text: {error.reason} at byte {error.start}") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes aside and renames: a reader sees the old file or the new one, never a part.

    A file that could not be written leaves the old one as it was, and nothing beside it.

    Raises:
      BadInput: the file cannot be written.
    """
    path = pathlib.Path(path)
    # Writers of one file, in this process or another, do not share what they write aside.
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        try:
            aside.write_bytes(content.encode() if isinstance(content, str) else content)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
