"""The snippets of the page on reading, on an object store."""

from pathlib import Path

import pytest

from tests.object_stores.stores import Bucket
from tests.reading import publish_people, publish_synthetic
from tests.test_reading import require_right, run

pytestmark = pytest.mark.object_stores


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_the_snippets_of_the_page_read_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    lake = bucket.lake()
    publish_people(tmp_path, lake)
    publish_synthetic(tmp_path / "private", lake, name="private")
    require_right(run(lake), lake)
