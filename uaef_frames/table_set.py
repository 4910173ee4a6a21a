"""Frames that belong together: checked at once, kept in a folder of Parquet files.

Knows that there are tables with schemas; what they hold is the subclasses' business.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import polars as pl

from uaef_frames import schemas
from uaef_frames.errors import ConfigError
from uaef_frames.files import make_folder, replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    import dataframely as dy


class TableSet:
    """A frozen set of frames, one attribute a table of `tables`."""

    __slots__ = ()

    tables: ClassVar[Mapping[str, type[dy.Schema]]]
    what: ClassVar[str]

    def frames(self) -> dict[str, pl.DataFrame]:
        """The frames by the name of their table."""
        return {name: getattr(self, name) for name in self.tables}

    def write_parquet(self, folder: str | Path) -> Path:
        """Write a file a table into a folder, which is made.

        Raises:
            StoreError: The disk does not take them.
        """
        target = Path(folder)
        make_folder(target)
        for name, frame in self.frames().items():
            with replacing(target / f"{name}.parquet") as draft:
                frame.write_parquet(draft, compression="zstd")
        return target

    @classmethod
    def read_parquet(cls, folder: str | Path) -> Self:
        """Read what `write_parquet` wrote.

        Raises:
            ConfigError: A table is missing.
        """
        source = Path(folder)
        missing = [n for n in cls.tables if not (source / f"{n}.parquet").is_file()]
        if missing:
            raise ConfigError(f"{source} holds no {missing[0]}.parquet: these are no {cls.what}")
        return cls(
            **{
                name: pl.read_parquet(source / f"{name}.parquet")
                .select(list(schemas.columns(schema)))
                .cast(cast("Any", dict(schemas.columns(schema))))
                for name, schema in cls.tables.items()
            }
        )
