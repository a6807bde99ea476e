"""Files of a release with something wrong in them: named cases, and mutations of right ones."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import yaml

# What a mutation is made to: the files of the release `people` of the fixture `home`.
TARGETS = {
    "release": "releases/people.yaml",
    "policy": "policies/people.yaml",
    "suite": "expectations/people.json",
    "hierarchy": "hierarchies/zip.csv",
}
_BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 30))
_SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 2**127, 1e308, -1e-320, float("nan"), float("inf")),
    *(
        "",
        " ",
        "x",
        "\0",
        "\x1b[31m",
        "é" * 300,
        "a" * 5000,
        "../../etc/passwd",
        "/etc/passwd",
        "{{ x }}",
        "@daily",
    ),
    *([], {}, [[]], [None], {"model": "k_anonymity"}, {"a": {"b": {}}}, ["x"] * 200),
)
_TEXTS = (
    *(
        "2024-02-31",
        "!!int abc",
        "!!python/object:os.system x",
        "!!binary x",
        "!!set {a, b}",
        "!!timestamp x",
        "!x y",
    ),
    *(
        "9" * 5000,
        "1e999",
        ".nan",
        "-.inf",
        "0x" + "f" * 900,
        "1" + ":1" * 3000,
        "*missing",
        "&a [*a]",
        "<<: {a: 1}",
    ),
    *(
        "[" * 300,
        "{a: " * 300,
        "? [a, b]\n: c",
        "\ttab",
        "\x00",
        "\ufeff",
        "---\nb: 2",
        "'",
        '"\\ud800"',
        "%YAML 9.9",
    ),
    *("2024-01-01", "yes", "1_000", "0o17", "=", "~", "- a", "a: b: c", "#", ";", "*;*;*", "\r", "\u2028"),
)


def write_neighbour(home: Path) -> None:
    """A second release, `steady`, with separate files."""
    fields = yaml.safe_load((home / TARGETS["release"]).read_text())
    for kind in ("policy", "suite", "hierarchy"):
        path = home / TARGETS[kind]
        path.with_stem("steady").write_bytes(path.read_bytes())
    fields |= {"name": "steady", "policy": "policies/steady.yaml", "expectations": "expectations/steady.json"}
    fields["publish"]["table"] = "steady"
    fields["schema"]["zip"]["hierarchy"] = "hierarchies/steady.csv"
    (home / "releases" / "steady.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))


def mutations(home: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Targets, each with other bytes; the same ones every time."""
    right = {name: (home / path).read_bytes() for name, path in TARGETS.items()}
    for seed in range(count):
        draw = np.random.default_rng(seed)
        target = _one(draw, list(TARGETS))
        ways = (
            (_of_bytes, _of_text) if target == "hierarchy" else (_of_bytes, _of_text, _of_fields, _of_fields)
        )
        yield target, _one(draw, ways)(right[target], draw)


def _one(draw: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(draw.integers(len(options)))]


def _of_bytes(data: bytes, draw: np.random.Generator) -> bytes:
    for _ in range(int(draw.integers(1, 5))):
        at, until = sorted(map(int, draw.integers(len(data) + 1, size=2)))
        data = _one(
            draw,
            (
                data[:at] + draw.bytes(int(draw.integers(1, 9))) + data[at:],
                data[:at] + data[until:],
                data[:at],
                data[:at] + data[at:until] * _one(draw, (2, 50)) + data[until:],
                data[:at] + bytes([int(draw.integers(256))]) + data[at + 1 :],
            ),
        )[:200_000]
    return data


def _of_text(data: bytes, draw: np.random.Generator) -> bytes:
    lines = data.decode().splitlines()
    at = int(draw.integers(len(lines)))
    before, colon, _ = lines[at].partition(":")
    text = _one(draw, _TEXTS)
    lines[at] = _one(draw, (f"{before}{colon} {text}", f"{text}{lines[at]}", f"{lines[at]}\n{text}", text))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _of_fields(data: bytes, draw: np.random.Generator) -> bytes:
    as_json = data.lstrip().startswith(b"{")
    fields = json.loads(data) if as_json else yaml.safe_load(data)
    for _ in range(int(draw.integers(1, 4))):
        place = _one(draw, list(_collections(fields)))
        value = deepcopy(_one(draw, _SCALARS))
        if isinstance(place, list):
            place[int(draw.integers(len(place) + 1)) :] = [value]
        elif place and draw.random() < 0.7:
            place[_one(draw, list(place))] = value
        else:
            place[_one(draw, (_one(draw, list(place) or ["x"]), "unknown", "é", "n" * 3000))] = value
    if as_json:
        return json.dumps(fields).encode()
    return yaml.safe_dump(fields, sort_keys=False).encode()


def _collections(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for part in list(value.values() if isinstance(value, dict) else value):
            yield from _collections(part)


def _written(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return write


def _added(text: str) -> Callable[[Path], None]:
    return _written(lambda data: data + text.encode())


def _instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


# What a file can be that is right for no release, policy, suite or hierarchy.
ANY_FILE: Mapping[str, Callable[[Path], None]] = {
    "nul": _added("\0"),
    "utf-16": _written(lambda data: data.decode().encode("utf-16")),
    "latin-1": _written(lambda data: data + b"\xe9"),
    "empty": _written(lambda data: b""),
    "20-megabytes": _written(lambda data: data * (20_000_000 // len(data))),
    "folder": _instead(Path.mkdir),
    "pipe": _instead(os.mkfifo),
    "dangling-link": _instead(lambda path: path.symlink_to(path.with_stem("gone"))),
    "link-to-itself": _instead(lambda path: path.symlink_to(path)),
    "device": _instead(lambda path: path.symlink_to("/dev/zero")),
}
# What a YAML file can hold that no one can mean.
ANY_YAML: Mapping[str, Callable[[Path], None]] = {
    "no-such-date": _added("zz: 2024-02-31\n"),
    "int-of-text": _added("zz: !!int abc\n"),
    "bool-of-text": _added("zz: !!bool abc\n"),
    "timestamp-of-text": _added("zz: !!timestamp abc\n"),
    "python-tag": _added("zz: !!python/object/apply:os.getcwd []\n"),
    "5000-digits": _added(f"zz: {'9' * 5000}\n"),
    "hexadecimal-megabits": _added(f"zz: 0x{'f' * 500_000}\n"),
    "sexagesimal": _added(f"zz: 1{':1' * 300_000}\n"),
    "10000-brackets": _added(f"zz: {'[' * 10_000}{']' * 10_000}\n"),
    "500000-brackets": _added(f"zz: {'[' * 500_000}\n"),
    "10000-mappings": _added(f"zz: {'{a: ' * 10_000}\n"),
    "alias-bomb": _added(_BOMB),
    "alias-bomb-as-key": _added(f"{_BOMB}? *a29\n: x\n"),
    "alias-of-itself": _added("zz: &zz [*zz]\n"),
    "merge-bomb": _added(
        "m0: &m0 {a: 1}\n"
        + "".join(f"m{i}: &m{i}\n  <<: [{', '.join([f'*m{i - 1}'] * 9)}]\n" for i in range(1, 30))
    ),
    "alias-as-key": _added("zz: &zz [a]\n? *zz\n: x\n"),
    "list-as-key": _added("? [a, b]\n: x\n"),
    "mapping-as-key": _added("? {a: b}\n: x\n"),
    "number-as-key": _added("1: x\n"),
    "20000-unknown-keys": _added("".join(f"unknown{i}: 1\n" for i in range(20_000))),
    "100000-unknown-keys": _added("".join(f"k{i}: 1\n" for i in range(100_000))),
    "9000-unknown-keys": _added("".join(f"unknown{i}: 1\n" for i in range(9_000))),
    "megabyte-key": _added(f"? {'k' * 900_000}\n: 1\n"),
    "doubled-key": _added("zz: 1\nzz: 2\n"),
    "surrogate": _added('zz: "\\ud800"\n'),
    "escaped-nul": _added('zz: "\\0"\n'),
    "nan": _added("zz: .nan\n"),
    "infinity": _added("zz: 1e999\n"),
    "two-documents": _added("---\nname: people\n"),
}
