"""Read the paper's real data from a folder, or download them once into the user's cache.

The folder that the variable NNGHMC_DATA names comes first; it holds the files under the names given
here, as they are or compressed (.xz, .gz). Files that it does not hold are downloaded by Pooch from
where their owners publish them. Known checksums are checked.
"""

import gzip
import hashlib
import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from nnghmc import NnghmcError

FOLDER = "NNGHMC_DATA"
OPENERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
}
UCI = "https://archive.ics.uci.edu/static/public"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"


class DataError(NnghmcError):
    """Raised for data that are missing or not what they should be."""


class DownloadBar:
    """A progress bar of Rich with the methods that Pooch calls."""

    def __init__(self, title: str):
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(title, total=None)

    @property
    def total(self) -> float | None:
        """The size of the download in bytes."""
        return self._bar.tasks[0].total

    @total.setter
    def total(self, number: float) -> None:
        self._bar.update(self._task, total=number)
        self._bar.start()

    def update(self, number: int) -> None:
        """Advance by a number of bytes."""
        self._bar.advance(self._task, number)

    def reset(self) -> None:
        """Go back to zero bytes."""
        self._bar.reset(self._task)

    def close(self) -> None:
        """Stop the bar."""
        self._bar.stop()


@dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes:
        path: its path in the folder of the data.
        url: where its owners publish it, or an archive that contains it.
        member: its name in that archive; None where the address is that of the file itself.
        sha256: the checksum of its contents; None where copies differ in white space.
    """

    path: str
    url: str
    member: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper, the credit of its owners, and its files."""

    title: str
    credit: str
    files: tuple[File, ...]

    def contents(self) -> list[BytesIO]:
        """Read each file from the folder or the cache, or download it, and check it."""
        return [BytesIO(self._check(file, self._read(file))) for file in self.files]

    def _read(self, file: File) -> bytes:
        folder = os.environ.get(FOLDER)
        if folder is not None:
            for ending, unpack in OPENERS.items():
                path = Path(folder) / (file.path + ending)
                if path.exists():
                    return unpack(path.read_bytes())
        pooch = self._import_pooch(file)
        try:
            return self._download(pooch, file)
        except Exception as error:  # whatever the network, the archive or the disk comes up with
            raise DataError(
                f"{self.title} is not on this machine and could not be downloaded from {file.url} "
                f"({type(error).__name__}: {error}). Run this once with a network connection, or "
                f"{_put_into_folder(file)}."
            ) from None

    def _import_pooch(self, file: File) -> Any:
        """Import Pooch, which only downloads need, or say how to install it."""
        try:
            import pooch
        except ModuleNotFoundError as error:
            if error.name != "pooch":
                raise
            raise DataError(
                f"{self.title} is not on this machine, and Pooch, which downloads it, is not "
                'installed; install it with pip install "nnghmc[paper]", or '
                f"{_put_into_folder(file)}."
            ) from None
        return pooch

    def _download(self, pooch: Any, file: File) -> bytes:
        path = pooch.retrieve(
            file.url,
            known_hash=None,  # archives are packed anew now and then; their contents are checked
            path=pooch.os_cache("nnghmc"),
            downloader=pooch.HTTPDownloader(progressbar=DownloadBar(self.title)),
        )
        if file.member is None:
            return Path(path).read_bytes()
        with ZipFile(path) as archive:
            packed = archive.read(file.member)
        return OPENERS[".gz"](packed) if file.member.endswith(".gz") else packed

    def _check(self, file: File, contents: bytes) -> bytes:
        sha256 = hashlib.sha256(contents).hexdigest()
        if file.sha256 is not None and sha256 != file.sha256:
            raise DataError(
                f"{file.path} of {self.title} is not the file it should be: its SHA-256 is "
                f"{sha256[:12]}… and should be {file.sha256[:12]}…; delete it, and it will be "
                "downloaded again."
            )
        return contents


def _put_into_folder(file: File) -> str:
    return (
        f"get the file elsewhere and set {FOLDER} to a folder that holds {file.path}, as it is or "
        "as .xz or .gz"
    )


COVER_TYPE = DataSet(
    "Cover Type",
    "Blackard (1998), UCI Machine Learning Repository, doi 10.24432/C50K5N, CC BY 4.0",
    (
        File(
            "covtype/covtype.data",
            f"{UCI}/31/covertype.zip",
            "covtype.data.gz",
            "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
        ),
    ),
)
ONLINE_NEWS = DataSet(
    "Online News Popularity",
    "Fernandes, Vinagre, Cortez and Sernadela (2015), UCI Machine Learning Repository, "
    "doi 10.24432/C5NS3V, CC BY 4.0",
    (
        File(
            "online_news_popularity/OnlineNewsPopularity.csv",
            f"{UCI}/332/online+news+popularity.zip",
            "OnlineNewsPopularity/OnlineNewsPopularity.csv",
        ),
    ),
)
CENSUS_INCOME = DataSet(
    "Census Income (Adult), in the coding of a9a",
    "Becker and Kohavi (1996), UCI Machine Learning Repository, doi 10.24432/C5XW20, CC BY 4.0; "
    "coded by Platt (1998)",
    (
        File(
            "adult/a9a",
            f"{LIBSVM}/a9a",
            None,
            "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
        ),
        File(
            "adult/a9a.t",
            f"{LIBSVM}/a9a.t",
            None,
            "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
        ),
    ),
)
DOTA2 = DataSet(
    "Dota2 Games Results",
    "Tridgell (2016), UCI Machine Learning Repository, doi 10.24432/C5W593, CC BY 4.0",
    tuple(
        File(f"dota2/{name}", f"{UCI}/367/dota2+games+results.zip", name, sha256)
        for name, sha256 in (
            (
                "dota2Train.csv",
                "16823bf0ad99b4931e94809268807ef398edb7b1288b12b384aeddbee3d9ebda",
            ),
            ("dota2Test.csv", "bcc9ce564421db7340b1464dedd2691bb18af06613726ff72d142ffc2ee2aff9"),
        )
    ),
)
