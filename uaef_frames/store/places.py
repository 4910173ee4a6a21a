"""Where runs stand: a folder on a disk, or one in an object store, which is only read.

Tables are scanned by polars' own object-store reader; listings, manifests and whole files come
through pyarrow's file systems. SQL works on copies of the files that a query needs, so that DuckDB
needs no extension and reaches nothing else.
"""

from __future__ import annotations

import os
import shutil
import weakref
from importlib import import_module
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import polars as pl

from uaef_frames.errors import ConfigError, StoreError
from uaef_frames.store.escaping import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_AMAZON, _GOOGLE, _AZURE = ("s3", "s3a"), ("gs", "gcs"), ("az", "azure", "abfs", "abfss", "adl")
_SCHEMES = (*_AMAZON, *_GOOGLE, *_AZURE)
_VARIABLES = {
    "aws_endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "aws_region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_SHORTEST_SECRET = 6
_READ_ONLY = "stores in the cloud are read only: write runs to a disk, and copy their folders there"


class Remote:
    """A folder or file in an object store: as much of a path as readers need.

    Shows its address and never its options, which may hold keys.
    """

    __slots__ = ("_files", "_key", "options", "url")

    def __init__(self, url: str, options: Mapping[str, str], files: Any, key: str) -> None:
        self.url = url
        self.options = options
        self._files = files
        self._key = key

    @classmethod
    def at(cls, address: str, options: Mapping[str, str] | None) -> Remote:
        """The folder at an address.

        Raises:
            ConfigError: The address is of no object store that can be read, or holds credentials.
            StoreError: The object store cannot be spoken to.
        """
        url = address.rstrip("/")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise ConfigError(f"{address!r} is no address: {error}") from None
        if parts.scheme not in _SCHEMES:
            raise ConfigError(
                f"{parts.scheme}:// is no place for runs; there is {', '.join(_SCHEMES)}"
            )
        if not parts.netloc:
            raise ConfigError(f"{address} names no bucket; write {parts.scheme}://bucket/folder")
        if "@" in parts.netloc and parts.scheme not in _AZURE:
            raise ConfigError("an address holds no credentials; give them as storage_options=")
        given = {k.lower(): str(v) for k, v in (options or {}).items()}
        if parts.scheme in _AMAZON:
            _complete(given)
        bucket = parts.netloc.partition("@")[0]
        key = f"{bucket}{parts.path}"
        try:
            return cls(url, given, _file_system(parts, given), key)
        except (OSError, ValueError) as error:
            raise StoreError(f"{url} cannot be opened: {_without(given, error)}") from None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> Remote:
        """The folder around it."""
        return Remote(
            self.url.rpartition("/")[0],
            self.options,
            self._files,
            self._key.rpartition("/")[0],
        )

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url}/{name}", self.options, self._files, f"{self._key}/{name}")

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"Remote({self.url!r})"

    def size(self) -> int | None:
        """Bytes of a file; None: there is none.

        Raises:
            OSError: The object store does not answer.
        """
        return self.sizes([""])[0]

    def sizes(self, names: Iterable[str]) -> list[int | None]:
        """Bytes of files in the folder (an empty name: of itself), asked for at once."""
        keys = [f"{self._key}/{name}" if name else self._key for name in names]
        try:
            found = self._files.get_file_info(keys)
        except OSError as error:
            raise self._told(error) from None
        return [info.size for info in found]

    def exists(self) -> bool:
        """Whether there is such a file."""
        return self.size() is not None

    def folders_with(self, name: str) -> list[str]:
        """Names of the folders in this one that hold a file of that name, in order."""
        fs = _arrow_fs()
        try:
            selected = fs.FileSelector(self._key, allow_not_found=True)
            found = self._files.get_file_info(selected)
        except OSError as error:
            raise StoreError(f"{self.url} cannot be listed: {self._told(error)}") from None
        folders = sorted(
            i.base_name for i in found if i.type == fs.FileType.Directory and i.base_name
        )
        shown = [f for f in folders if not f.startswith(".")]
        held = self.sizes(f"{folder}/{name}" for folder in shown) if shown else []
        return [f for f, size in zip(shown, held, strict=True) if size is not None]

    def read_text(self, encoding: str) -> str:
        """The text of a file.

        Raises:
            FileNotFoundError: There is none.
            OSError: The object store does not answer.
        """
        with self.open() as opened:
            return opened.read().decode(encoding)

    def open(self) -> Any:
        """The file, to be read as bytes."""
        try:
            return self._files.open_input_stream(self._key)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no {self.url}") from None
        except OSError as error:
            raise self._told(error) from None

    def fetch(self, target: Path) -> bool:
        """Copy the file to a disk; whether there was one."""
        draft = target.with_name(f"{target.name}.part")
        try:
            with self.open() as source, draft.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
        except FileNotFoundError:
            return False
        draft.replace(target)
        return True

    def _told(self, error: OSError) -> OSError:
        return OSError(f"{self.url}: {_without(self.options, error)}")


Place: TypeAlias = Path | Remote


def place(path: str | Path | Remote, options: Mapping[str, str] | None = None) -> Place:
    """The folder that a path or an address names; a notebook may change its directory later.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(path, Remote):
        return path
    given: Any = path
    if not isinstance(given, (str, PathLike)):
        raise ConfigError(f"a folder of runs is a path or an address, not {given!r}")
    _must_be_text(str(path))
    if is_remote(path):
        return Remote.at(str(path), options)
    try:
        found = Path(path).resolve()
        found.exists()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{str(path)[:100]!r} is no path: {error}") from error
    return found


def _must_be_text(name: str) -> None:
    if not is_text(name):
        raise ConfigError(f"{name!r} is no name in UTF-8, which polars needs: rename it")


def is_remote(path: str | Path) -> bool:
    """Whether it is the address of an object store rather than a path."""
    return isinstance(path, str) and "://" in path


def must_be_local(path: str | Path | Remote) -> None:
    """Refuse to write where runs are only read.

    Raises:
        StoreError: It is in an object store.
        ConfigError: It is no name in UTF-8.
    """
    if isinstance(path, Remote) or is_remote(path):
        raise StoreError(f"{path}: {_READ_ONLY}")
    _must_be_text(str(path))


def scan(file: Place) -> pl.LazyFrame:
    """The rows of a Parquet file, lazily."""
    if isinstance(file, Path):
        return pl.scan_parquet(file, glob=False)
    return pl.scan_parquet(file.url, glob=False, storage_options=dict(file.options))


class Mirror:
    """Files of remote runs on this disk: fetched when first needed, gone with their reader.

    Whole runs never change, so that a copy is as good as the file.
    """

    def __init__(self) -> None:
        try:
            self._folder = Path(mkdtemp(prefix="uaef-frames-"))
        except OSError as error:
            raise StoreError(f"there is no place for copies of runs: {error}") from error
        self._gone = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def of(self, run: Remote, names: Iterable[str]) -> Path:
        """A folder with the files of a run that there are, of those named.

        Raises:
            StoreError: The object store does not answer, or the disk is full.
        """
        folder = self._folder / run.name
        try:
            folder.mkdir(exist_ok=True)
            for name in names:
                if not (folder / name).exists():
                    (run / name).fetch(folder / name)
        except OSError as error:
            raise StoreError(f"{run} cannot be read: {error}") from None
        return folder


def _file_system(parts: Any, given: Mapping[str, str]) -> Any:
    fs = _arrow_fs()

    def of(*names: str) -> str | None:
        return next((given[n] for n in names if n in given), None)

    if parts.scheme in _AMAZON:
        endpoint = of("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint")
        scheme, _, host = (endpoint or "").rpartition("://")
        settings = {
            "access_key": of("aws_access_key_id", "access_key_id"),
            "secret_key": of("aws_secret_access_key", "secret_access_key"),
            "session_token": of("aws_session_token", "aws_token", "session_token"),
            "region": of("aws_region", "region", "aws_default_region"),
            "endpoint_override": host.rstrip("/") or None,
            "scheme": scheme or None,
            "anonymous": of("aws_skip_signature", "skip_signature") == "true" or None,
            "connect_timeout": 10,
            "request_timeout": 60,
        }
        return fs.S3FileSystem(**{k: v for k, v in settings.items() if v is not None})
    if parts.scheme in _GOOGLE:
        return fs.GcsFileSystem()
    account = parts.netloc.partition("@")[2].partition(".")[0]
    account = account or of("azure_storage_account_name", "account_name") or ""
    key = of("azure_storage_account_key", "account_key")
    return fs.AzureFileSystem(account, **({} if key is None else {"account_key": key}))


def _complete(given: dict[str, str]) -> None:
    """Settings of the environment that polars finds there, and pyarrow does not."""
    if "aws_endpoint" in given:
        given.setdefault("aws_endpoint_url", given["aws_endpoint"])
    for option, variables in _VARIABLES.items():
        held = next((os.environ[v] for v in variables if os.environ.get(v)), None)
        if held is not None:
            given.setdefault(option, held)
    if given.get("aws_endpoint_url", "").startswith("http://"):
        given.setdefault("aws_allow_http", "true")


def _arrow_fs() -> Any:
    """pyarrow's file systems, of which no types are known."""
    return import_module("pyarrow.fs")


def _without(options: Mapping[str, str], error: BaseException) -> str:
    """An error in one line, with nothing of the options that could be a secret."""
    text = " ".join(str(error).split())
    for name, value in options.items():
        if len(value) >= _SHORTEST_SECRET and any(w in name for w in ("key", "secret", "token")):
            text = text.replace(value, "…")
    return text[:500]
