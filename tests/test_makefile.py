"""What the Makefile hands to the tools that it runs."""

import subprocess

from tests.import_graph import ROOT


def test_uv_trusts_the_authorities_that_the_system_trusts() -> None:
    shown = subprocess.run(
        ["make", "--eval", "show: ; @echo $$UV_SYSTEM_CERTS", "show"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert shown.stdout.split() == ["1"]


def test_the_demonstration_compiles_what_it_needs_before_it_starts() -> None:
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert planned.index("privacy-release warm --for demo") < planned.index("-m deploy.local.demo")
