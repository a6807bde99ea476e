"""`privacy-release budget`: what each command prints and returns."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from deploy.local.embedded import free_port
from privacy_engine.dp.limits import Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Promise
from privacy_release.cli import budget
from privacy_release.cli.main import DONE, REFUSED, WRONG, main
from privacy_release.ledger.ledger import BudgetLedger

PASSWORD = "hunter2-hunter2"
COMMANDS = ("show", "grant", "history", "check", "migrate")


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default ledger, and no release that spends of it: to read those of the checkout takes long."""
    file = tmp_path / "ledger.db"
    (tmp_path / "include" / "releases").mkdir(parents=True)
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(tmp_path))
    monkeypatch.setenv("PRIVACY_LEDGER", str(file))
    monkeypatch.delenv("PRIVACY_LEDGER_KEY", raising=False)
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of the output, errors."""
    capsys.readouterr()
    code = main(["budget", *arguments])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def grant(capsys: pytest.CaptureFixture[str], *more: str, epsilon: str = "1") -> list[str]:
    code, out, _ = run(capsys, "grant", "adult", "--epsilon", epsilon, "--reason", "a year", *more)
    assert code == DONE
    return out


def book(file: Path, key: str, epsilon: float, *, commit: bool = False) -> str:
    loss = PrivacyLoss(epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)
    ledger = BudgetLedger(str(file))
    held = ledger.reserve("adult", key, loss, detail={"run": f"dag/{key}"})
    if commit:
        ledger.commit("adult", key, "model", token=held.token)
    return held.entry_hash


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell]


def test_grant_sets_limits_and_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    grant(capsys)
    grant(capsys, "--period", "365d", "--delta", "1e-9", epsilon="0.5")
    out = grant(capsys, "--period", "release", epsilon="0.25")
    assert out[0].startswith("granted as entry 3 of adult")
    assert [" ".join(line.split()) for line in out[1:]] == [
        "data set period budget spent reserved left neighbours",
        "adult total 1 0 0 1 replace_one",
        "adult 365d 0.5, delta 0.000000001 0 0 0.5, delta 0.000000001 replace_one",
        "adult release 0.25 - - 0.25 replace_one",
    ]


def test_show_tells_what_is_spent_reserved_and_left(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    grant(capsys)
    book(file, "a", 0.1, commit=True)
    book(file, "b", 0.2)
    for arguments in ((), ("adult",)):
        code, out, _ = run(capsys, "show", *arguments)
        assert code == DONE
        assert out[1].split() == ["adult", "total", "1", "0.3", "0.2", "0.7", "replace_one"]


def test_show_rounds_what_is_spent_up_and_what_is_left_down(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    grant(capsys)
    book(file, "a", 0.12345612, commit=True)
    assert run(capsys, "show")[1][1].split()[2:6] == ["1", "0.123457", "0", "0.876543"]
    book(file, "b", 0.12345611)
    assert run(capsys, "show")[1][1].split()[2:6] == ["1", "0.246913", "0.123457", "0.753087"]


def test_columns_stand_under_their_heads(capsys: pytest.CaptureFixture[str]) -> None:
    lines = grant(capsys, "--delta", "0.00001")[1:]
    head, row = ([cell.start() for cell in re.finditer(r"\S+( \S+)*", line)] for line in lines)
    assert head == row


def test_history_lists_every_entry_with_its_reason(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    grant(capsys)
    booked = book(file, "a", 0.1, commit=True)
    code, out, _ = run(capsys, "history", "adult")
    assert code == DONE
    assert [cells(line)[2].strip() for line in out] == ["event", "grant", "reserve", "commit"]
    assert "reason=a year" in out[1]
    assert booked[:12] in out[2]
    assert "run=dag/a" in out[2]


def test_history_shows_the_requested_number_of_newest_entries(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    grant(capsys)
    book(file, "a", 0.1, commit=True)
    code, out, _ = run(capsys, "history", "adult", "--last", "2")
    assert code == DONE
    assert [cells(line)[2].strip() for line in out] == ["event", "reserve", "commit"]
    assert run(capsys, "history", "adult", "--last", "0")[0] == WRONG


def test_a_long_check_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "_EVERY", 3)
    grant(capsys)
    book(file, "a", 0.1, commit=True)
    code, _, err = run(capsys, "check", "adult")
    assert (code, err) == (DONE, "adult: 3 of 3 entries checked\n")


def test_check_says_what_it_checked_and_what_it_cannot_tell(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    grant(capsys)
    booked = book(file, "a", 0.1)
    code, out, _ = run(capsys, "check", "adult", "--recorded", booked)
    assert code == DONE
    assert out[0] == f"whole     adult: 2 entries up to {booked[:12]}"
    assert out[1].startswith("the entries are not signed: anyone who can write the database")


def test_a_signed_ledger_is_checked_with_its_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER_KEY", PASSWORD + PASSWORD)
    grant(capsys)
    code, out, _ = run(capsys, "check")
    assert (code, out[1]) == (DONE, "the entries are signed with the given key")
    monkeypatch.setenv("PRIVACY_LEDGER_KEY", "x" * 32)
    code, _, err = run(capsys, "check")
    assert code == REFUSED
    assert "is not the one its entries were signed with" in err
    assert "x" * 32 not in err
    (file.parent / "key").write_text(f"{PASSWORD}{PASSWORD}\n")
    monkeypatch.delenv("PRIVACY_LEDGER_KEY")
    monkeypatch.setenv("PRIVACY_LEDGER_KEY_FILE", str(file.parent / "key"))
    assert run(capsys, "check")[0] == DONE


def test_an_edited_ledger_is_refused(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    grant(capsys)
    book(file, "a", 0.5)
    with create_engine(f"sqlite:///{file}", poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE privacy_ledger_entry SET epsilon = '0.1' WHERE number = 2"))
    for command in (["check"], ["check", "adult"], ["show"], ["history", "adult"]):
        code, _, err = run(capsys, *command)
        assert code == REFUSED
        assert "entry 2 was edited or moved" in err


def test_a_recorded_entry_that_is_gone_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    grant(capsys)
    code, _, err = run(capsys, "check", "adult", "--recorded", "f" * 64)
    assert code == REFUSED
    assert "lacks 1 of 1 recorded entries" in err
    assert run(capsys, "check", "--recorded", "f" * 64)[0] == WRONG


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--epsilon", "-1"], "epsilon of a limit must be >= 0"),
        (["--epsilon", "nan"], "epsilon of a limit must be >= 0"),
        (["--epsilon", "1", "--delta", "1"], "delta of a limit must be in"),
        (["--epsilon", "1", "--period", "year"], "a period must be total, release or a number of days"),
        (["--epsilon", "1", "--neighbours", "all"], "neighbours must be one of"),
        (["--epsilon", "1", "--reason", " "], "the reason must be 1 to 250 printable characters"),
    ],
)
def test_a_wrong_grant_is_reported_and_grants_nothing(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    code, _, err = run(capsys, "grant", "adult", "--reason", "x", *arguments)
    assert code == WRONG
    assert expected in err
    assert run(capsys, "history", "adult")[0] == WRONG


def test_an_unknown_data_set_is_reported_with_those_that_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    grant(capsys)
    for command in ("show", "history"):
        code, _, err = run(capsys, command, "adlut")
        assert code == WRONG
        assert "must have the data set adlut, found adult" in err
    assert run(capsys, "check", "adlut")[0] == REFUSED


def test_nothing_to_show_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "check"):
        assert run(capsys, command)[1] == ["no data set has a budget yet"]


def test_another_ledger_is_named_and_made_by_migrate_alone(
    capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    named = ("--ledger", str(other))
    code, _, err = run(capsys, "grant", "adult", "--epsilon", "1", "--reason", "x", *named)
    assert code == WRONG
    assert "privacy-release budget migrate" in err
    assert not other.exists()
    assert run(capsys, "migrate", *named)[:2] == (
        DONE,
        [f"the ledger {other} has the tables of this version"],
    )
    grant(capsys, "--ledger", f"sqlite:///{other}")
    assert BudgetLedger(str(other)).datasets() == ("adult",)
    assert not file.exists()


def test_a_ledger_on_postgresql_is_named_by_its_address(
    capsys: pytest.CaptureFixture[str], ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER", ledger.url)
    grant(capsys)
    assert run(capsys, "check")[0] == DONE
    assert ledger.datasets() == ("adult",)


def test_without_a_place_the_command_asks_for_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVACY_LEDGER")
    code, _, err = run(capsys, "show")
    assert code == WRONG
    assert "give --ledger URL|FILE, set PRIVACY_LEDGER" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unreachable_ledger_is_reported_without_its_password(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    address = f"postgresql://app:{PASSWORD}@127.0.0.1:{free_port()}/ledger"
    more = {"grant": ["adult", "--epsilon", "1", "--reason", "x"], "history": ["adult"]}.get(command, [])
    code, out, err = run(capsys, command, *more, "--ledger", address)
    assert (code, out) == (WRONG, [])
    assert "cannot be reached or refuses" in err
    assert PASSWORD not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_tells_where_the_ledger_is(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["budget", command, "--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert "--ledger URL|FILE" in output
    assert "$PRIVACY_LEDGER_KEY" in output


def test_a_limit_accounted_as_zcdp_shows_its_rho_and_others_no_such_column(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    assert "accounting" not in grant(capsys)[1]
    lines = grant(capsys, "--delta", "1e-9", "--accounting", "zcdp", "--period", "365d")
    assert "accounting" in lines[1]
    BudgetLedger(str(file)).reserve(
        "adult", "key", PrivacyLoss(epsilon=0.1, neighbours=Neighbours.REPLACE_ONE)
    )
    _, (_, by_sum, by_rho), _ = run(capsys, "show")
    assert by_sum.split()[-1] == "sum"
    assert by_rho.endswith("zcdp: rho 0.005 spent, 0.00997305 left of 0.014973")
    assert "1, delta 0.000000001" in by_rho


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--accounting", "zcdp"), "delta of a limit accounted as zcdp must be > 0"),
        (("--accounting", "rdp"), "accounting must be"),
    ],
)
def test_an_accounting_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str
) -> None:
    code, _, errors = run(capsys, "grant", "adult", "--epsilon", "1", "--reason", "x", *arguments)
    assert code == WRONG
    assert expected in errors


def test_a_grant_that_does_not_suit_a_promise_that_spends_it_warns_at_once(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    requested = (
        "grant",
        "town",
        "--epsilon",
        "2",
        "--reason",
        "a year",
    )  # no release of the examples spends it
    run(capsys, *requested, "--period", "365d")
    each = PrivacyLoss(epsilon=0.1, neighbours=Neighbours.REPLACE_ONE)
    promise = Promise(name="visits", loss=replace(each, epsilon=0.5), period=Period.parse("365d"))
    BudgetLedger(str(file)).reserve("town", "key", each, promise=promise)
    _, _, err = run(capsys, *requested)
    assert "warning: a limit in total counts each release by itself" in err
    assert "grant it with --period 365d" in err
    _, _, err = run(capsys, *requested, "--period", "365d")
    assert "warning" not in err
