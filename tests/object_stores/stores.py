"""Object stores of the tests' own: moto for S3 and Azurite for Azure, each a process on a separate port.

Both are emulators, but they check the signature of every request, and they keep to create-only writes.
"""

import base64
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fsspec

from deploy.local.embedded import HOST
from privacy_release.lake.store import Lake
from tests.waiting import wait_for

MOTO = Path(__file__).with_name("moto_child.py")
AZURITE = Path(__file__).with_name("azurite") / "node_modules" / ".bin"
REGION = "eu-west-1"


@dataclass(frozen=True, kw_only=True)
class S3:
    """What speaks Amazon's S3."""

    endpoint: str
    key: str
    secret: str

    def make_bucket(self, name: str) -> None:
        _amazon("s3", self.endpoint, self.key, self.secret).create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}
        )

    def address(self, bucket: str, path: str) -> str:
        return f"s3://{bucket}/{path}"

    def lake_options(self) -> dict[str, Any]:
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def source_options(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "secret": self.secret,
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": REGION},
        }


@dataclass(frozen=True, kw_only=True)
class Azure:
    """What speaks Azure's blob storage."""

    endpoint: str
    account: str
    secret: str

    def make_bucket(self, name: str) -> None:
        fsspec.filesystem("abfs", **self.source_options()).mkdir(name)

    def address(self, bucket: str, path: str) -> str:
        return f"abfss://{bucket}@{self.account}.dfs.core.windows.net/{path}"

    def lake_options(self) -> dict[str, Any]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.secret,
            "AZURE_STORAGE_ENDPOINT": f"{self.endpoint}/{self.account}",
            "allow_http": "true",
        }

    def source_options(self) -> dict[str, Any]:
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": self.account,
            "AccountKey": self.secret,
            "BlobEndpoint": f"{self.endpoint}/{self.account}",
        }
        return {"connection_string": ";".join(f"{name}={value}" for name, value in parts.items())}


# A store, who we are there, and the settings of both libraries.
Store = S3 | Azure


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A bucket, or container, of a test's own."""

    store: Store
    name: str

    def address(self, path: str) -> str:
        return self.store.address(self.name, path)

    def lake(self, folder: str = "lake", *, options: Mapping[str, str] | None = None) -> Lake:
        """A lake in a folder of the bucket, with options that differ from the store's."""
        chosen = self.store.lake_options() | dict(options or {})
        return Lake(root=self.address(folder), storage_options=tuple(chosen.items()))

    def through(self, endpoint: str) -> "Bucket":
        """The same bucket by another way."""
        return replace(self, store=replace(self.store, endpoint=endpoint))

    def put(self, path: str, data: bytes) -> None:
        self._files.pipe_file(f"{self.name}/{path}", data)

    def objects(self) -> dict[str, bytes]:
        """Every object by its key."""
        keys = self._files.find(self.name)
        return {key.removeprefix(f"{self.name}/"): self._files.cat_file(key) for key in keys}

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Replace all objects by these, which `objects` gave."""
        self._files.rm(self._files.find(self.name))
        self._files.pipe({f"{self.name}/{path}": data for path, data in objects.items()})

    @cached_property
    def _files(self) -> fsspec.AbstractFileSystem:
        return fsspec.filesystem(
            self.address("").partition(":")[0],
            **self.store.source_options(),
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """A running moto that knows one user, and refuses everybody else."""
    command = [sys.executable, "-P", str(MOTO), "-H", HOST, "-p", "0"]
    with _serving(command, folder / "moto.log", {}) as endpoint:
        iam = _amazon("iam", endpoint, "unknown", "nothing")
        iam.create_user(UserName="publisher")
        rights = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        iam.put_user_policy(
            UserName="publisher",
            PolicyName="lake",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [rights]}),
        )
        made = iam.create_access_key(UserName="publisher")["AccessKey"]
        # From the next request on, signatures and rights are checked.
        check = Request(f"{endpoint}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})
        urlopen(check).close()
        yield S3(endpoint=endpoint, key=made["AccessKeyId"], secret=made["SecretAccessKey"])


@contextmanager
def azure_server(folder: Path, program: str) -> Iterator[Azure]:
    """A running Azurite with one account."""
    # No folder on the path of a process is called like it, so that a test can look for it there.
    account, secret = f"account{secrets.token_hex(4)}", base64.b64encode(secrets.token_bytes(64)).decode()
    command = [program, "--silent", "--inMemoryPersistence", "--blobHost", HOST, "--blobPort", "0",
               "--skipApiVersionCheck", "--disableTelemetry"]  # fmt: skip
    with _serving(command, folder / "azurite.log", {"AZURITE_ACCOUNTS": f"{account}:{secret}"}) as endpoint:
        yield Azure(endpoint=endpoint, account=account, secret=secret)


def azurite() -> str | None:
    """Azurite's program for blobs, where it and Node.js are installed."""
    found = shutil.which("azurite-blob", path=os.pathsep.join([str(AZURITE), os.environ.get("PATH", "")]))
    return found if shutil.which("node") else None


def _amazon(service: str, endpoint: str, key: str, secret: str) -> Any:
    import boto3

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


@contextmanager
def _serving(command: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A server that chooses a port, and reports its address once it listens; ended at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:

        def listening() -> re.Match[str] | None:
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()}")
            return re.search(r"(?:Running|listens) on (http://\S+:\d+)", log.read_text())

        yield wait_for(listening, f"the address of {command[0]}", detail=log.read_text)[1]
    finally:
        process.kill()
        process.wait()
