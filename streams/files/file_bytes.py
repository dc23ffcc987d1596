"""The bytes of a file a few MiB at a time: decompressed, in UTF-8 whatever the file is in, and of one that still grows.

Where a file is followed, an empty piece says that nothing more has come yet.
"""

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from streams.errors import DeclarationError, InputError, brief, did_you_mean

__all__ = ["BYTE_ORDER_MARK", "PLAIN_BYTES", "READ_BYTES", "ByteForm", "check_readable", "encoding_hint", "read_bytes"]

#: How much of a file is read at a time; also about the size of a block.
READ_BYTES = 8 << 20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: What stands for bytes that are nothing in the declared encoding: a byte that UTF-8 never has, so the record is rejected.
UNREADABLE = b"\xff"

#: Encodings that a hint names first.
_USUAL_ENCODINGS = ("latin-1", "cp1252", "utf-16", "shift_jis", "gb18030", "big5", "euc_kr", "koi8-r", "iso8859-15")


def _unreadable(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    assert isinstance(error, UnicodeEncodeError)
    return UNREADABLE * (error.end - error.start), error.end


codecs.register_error("waterspout.unreadable", _unreadable)


@dataclass(frozen=True, slots=True)
class ByteForm:
    """What is said of a file's bytes.

    Attributes:
        encoding: what its text is in, by a name that Python knows.
        follow: go on reading as the file grows, for ever or until `end_mark` is there.
        end_mark: a file that says that a followed one has ended; what is in it is why that was too early.
    """

    encoding: str = "utf-8"
    follow: bool = False
    end_mark: str | None = None

    def __post_init__(self) -> None:
        try:
            info = codecs.lookup(self.encoding)
            if not info._is_text_encoding:
                raise LookupError
        except (LookupError, ValueError):
            near = did_you_mean(self.encoding, _USUAL_ENCODINGS)
            raise DeclarationError(
                f"encoding = {brief(self.encoding)}{near}, expected one that Python knows, such as utf-8, latin-1, cp1252"
            ) from None

    @property
    def is_utf8(self) -> bool:
        """Whether texts are read as they are."""
        return codecs.lookup(self.encoding).name == "utf-8"

    @property
    def unreadable(self) -> str:
        """What is wrong with a record that is not in the encoding, and what to do."""
        name = "UTF-8" if self.is_utf8 else self.encoding
        return f'not {name}, expected {name}, or an encoding that is declared, such as encoding = "latin-1"'


#: A file in UTF-8 that is read to its end.
PLAIN_BYTES = ByteForm()


def encoding_hint(data: bytes) -> str:
    """Return encodings that some bytes may be in that are not UTF-8, most likely first, for a message."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:200]:
        return "utf-16"
    return "cp1252 or latin-1"


def check_readable(path: str) -> None:
    """Raise `InputError` for a path that is missing, a folder, or not ours to read."""
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; name the files in it")
    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        there = sorted(os.listdir(folder))[:1000] if os.path.isdir(folder) else []
        raise InputError(f"{path} does not exist{did_you_mean(os.path.basename(path), there)}; check the path")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: permission denied; check its owner and mode")


def read_bytes(path: str, compression: str | None, form: ByteForm = PLAIN_BYTES) -> Iterator[bytes]:
    """Yield the bytes of a file in UTF-8, decompressed and without a byte order mark."""
    check_readable(path)
    data = _followed(path, form) if form.follow else _stored(path, compression)
    return _unmarked(data if form.is_utf8 else _recoded(data, form.encoding))


def _stored(path: str, compression: str | None) -> Iterator[bytes]:
    try:
        with pa.input_stream(path, compression=compression) as stream:
            while data := stream.read(READ_BYTES):
                yield data
    except OSError as error:
        what = f"as {compression}" if compression else "to its end"
        raise InputError(f"{path} cannot be read {what}: {error}; it is damaged or cut off, fetch it again") from error


def _followed(path: str, form: ByteForm) -> Iterator[bytes]:
    """Yield what is there, and then whatever comes; an empty piece when there is nothing at the moment."""
    with open(path, "rb", buffering=0) as file:
        while True:
            # Asked for before reading: what is written before the mark is read before the end.
            ended = form.end_mark is not None and os.path.exists(form.end_mark)
            if data := file.read(READ_BYTES):
                yield data
                continue
            if ended:
                assert form.end_mark is not None
                with open(form.end_mark, encoding="utf-8") as mark:
                    if reason := mark.read():
                        raise InputError(reason)
                return
            _check_followed(path, file.fileno(), file.tell())
            yield b""


def _check_followed(path: str, descriptor: int, position: int) -> None:
    """Raise `InputError` where a followed file was cut, or another one has its name."""
    here = os.fstat(descriptor)
    try:
        there = os.stat(path)
    except OSError:
        return  # removed or renamed: who has it open may still write
    if here.st_size < position:
        raise InputError(f"{path} was cut to {here.st_size} bytes while it was followed, of which {position} were read")
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        raise InputError(
            f"{path} was replaced by another file while it was followed; append to one file, or start afresh"
        )


def _recoded(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield text of an encoding as UTF-8; characters may be cut by pieces, and what is none becomes `UNREADABLE`."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="waterspout.unreadable")
    for data in pieces:
        if not data:
            yield b""
        elif text := decoder.decode(data):
            yield text.encode("utf-8", errors="waterspout.unreadable")
    if rest := decoder.decode(b"", final=True):
        yield rest.encode("utf-8", errors="waterspout.unreadable")


def _unmarked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces without the byte order mark that the first ones may begin with."""
    head: bytes | None = b""
    for data in pieces:
        if head is None or not data:
            yield data
            continue
        head += data
        if len(head) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(head):
            continue
        if rest := head.removeprefix(BYTE_ORDER_MARK):
            yield rest
        head = None
    if head:
        yield head
