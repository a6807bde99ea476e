"""UCI Adult, from a folder or the network, otherwise generated records in its form.

Source: Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, CC BY 4.0,
https://doi.org/10.24432/C5XW20 (the training part, 32,561 records).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.local.samples.synthetic_adult import synthetic_adult

if TYPE_CHECKING:
    import pandas as pd

ADULT_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data"
ADULT_SHA256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
INTEGER, TEXT = "int64", "str"
COLUMNS = {
    "age": INTEGER,
    "workclass": TEXT,
    "fnlwgt": INTEGER,
    "education": TEXT,
    "education-num": INTEGER,
    "marital-status": TEXT,
    "occupation": TEXT,
    "relationship": TEXT,
    "race": TEXT,
    "sex": TEXT,
    "capital-gain": INTEGER,
    "capital-loss": INTEGER,
    "hours-per-week": INTEGER,
    "native-country": TEXT,
    "salary-class": TEXT,
}
GENERATED_ROWS = 30_000
GENERATOR_SEED = 1994  # the year of the census extract; fixed, so that a repeated run has equal bytes
TIMEOUT_SECONDS = 10.0


def sample_table(
    cache: Path | None = None,
    *,
    url: str = ADULT_URL,
    timeout: float = TIMEOUT_SECONDS,
) -> tuple[pd.DataFrame, str]:
    """Return the table and a sentence that says where it comes from. Unknown values are null.

    The table is read from ``$PRIVACY_DATA/adult.parquet``, otherwise downloaded from UCI (kept in the cache
    folder, accepted only with the right SHA-256), otherwise generated.

    Args:
        cache: Folder that keeps the download; by default the user's cache folder.
        url: Address of UCI's ``adult.data``.
        timeout: Seconds to wait for an answer from the network.
    """
    import pandas as pd

    if (file := provided("adult.parquet")) is not None:
        table = pd.read_parquet(file, columns=list(COLUMNS)).astype(COLUMNS)
        return table, f"UCI Adult, {len(table):,} records, from the folder that PRIVACY_DATA names."
    try:
        table = parse_adult(download_adult(cache, url=url, timeout=timeout))
    except OSError as error:  # the network's errors, or a cache folder that cannot be written
        reason = f"UCI's file could not be fetched ({type(error).__name__})"
    except ValueError:
        reason = "the download was refused because its SHA-256 is not that of UCI's file"
    else:
        return table, f"UCI Adult, {len(table):,} records, from UCI or its copy in the cache folder."
    import numpy as np

    table = synthetic_adult(GENERATED_ROWS, rng=np.random.default_rng(GENERATOR_SEED))
    return table, f"{len(table):,} generated records in the form of UCI Adult, not real people: {reason}."


def half_of(table: pd.DataFrame, part: str) -> pd.DataFrame:
    """Return half of the records, in their order; equal texts choose equal records, others almost never do.

    It simulates a source that changes from one partition to the next. The records are public, so the choice
    protects no one.
    """
    import hashlib

    import numpy as np

    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(part.encode()).digest()))
    chosen = rng.choice(len(table), size=(len(table) + 1) // 2, replace=False)
    return table.iloc[np.sort(chosen)].reset_index(drop=True)


def download_adult(
    cache: Path | None = None, *, url: str = ADULT_URL, timeout: float = TIMEOUT_SECONDS
) -> Path:
    """Return UCI's ``adult.data`` from the cache folder, otherwise from ``url``.

    Raises:
        OSError: If the address cannot be reached or the cache folder cannot be written.
        ValueError: If the bytes do not have the expected SHA-256; nothing is kept then.
    """
    import pooch

    return Path(
        pooch.retrieve(
            url=url,
            known_hash=f"sha256:{ADULT_SHA256}",
            fname="adult.data",
            path=cache if cache is not None else pooch.os_cache("privacy-release"),
            downloader=pooch.HTTPDownloader(timeout=timeout),
        )
    )


def parse_adult(file: Path) -> pd.DataFrame:
    """Read UCI's text form: no header, ``, `` between the values, ``?`` for unknown."""
    import pandas as pd

    return pd.read_csv(
        file,
        header=None,
        names=list(COLUMNS),
        dtype=COLUMNS,
        skipinitialspace=True,
        na_values=["?"],
        keep_default_na=False,
    )


def provided(name: str) -> Path | None:
    """Return a file in the folder that `PRIVACY_DATA` names; None if it does not exist."""
    folder = os.environ.get("PRIVACY_DATA")
    file = Path(folder) / name if folder else None
    return file if file is not None and file.is_file() else None
