"""How the house is built: floors, rooms, and what may know what. Each rule is one loop over the source."""

import ast
import inspect
import re
import subprocess
import sys
import typing
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain

import pytest

import airflow_privacy_release
from privacy_engine.registry import DETECTORS, METHODS, Family
from privacy_release.plan.plan import Plan, plan_of
from privacy_release.spec.model import load_spec
from tests.import_graph import (
    PACKAGES,
    ROOT,
    imported_by,
    imports,
    imports_at_once,
    modules,
    statements,
    top,
    tree,
)
from tests.operator_arguments import classes, own_arguments

ENGINE, RELEASE, AIRFLOW = PACKAGES
MOST_MODULES = 20
SMALL = 40  # lines; a smaller module must have more than one user
# Modules that a framework or one list looks up: the migrations, and a page.
LOOKED_UP = {
    "airflow_privacy_release.plugin.routes.budget",
    "privacy_release.ledger.migrations.env",
    "privacy_release.ledger.migrations.versions.ledger_0001",
    "privacy_release.ledger.migrations.versions.ledger_0002",
}

# A package's own modules that all of its folders may import.
LOWEST = {"airflow_privacy_release.compat"}

# Folder -> the folders of its package that it may import. `root` is the package's own modules.
ARROWS: Mapping[str, Mapping[str, frozenset[str]]] = {
    package: {name: frozenset(known.split()) for name, known in rooms.items()}
    for package, rooms in {
        ENGINE: {
            "root": "tables verification measures dp synthesizers",
            "tables": "root",
            "dp": "root tables verification",
            "verification": "root tables dp",
            "measures": "root tables attacks",
            "attacks": "root tables measures verification",
            "recoding": "root tables measures verification",
            "engines": "root tables verification measures dp",
            "anonymizers": "root tables verification measures dp recoding",
            "republication": "root tables verification measures recoding anonymizers",
            "synthesizers": "root tables verification dp engines",
            "randomizers": "root tables verification dp",
            "outliers": "root tables recoding",
            "learning": "root tables randomizers",
            "fragments": "root tables verification measures recoding engines anonymizers",
            "structure": "root tables dp verification",
        },
        RELEASE: {
            "root": "lake ledger query running spec steps workarea",
            "config": "",
            "manifest": "",
            "plan": "spec",
            "workarea": "config manifest",
            "spec": "config workarea",
            "sources": "config workarea",
            "lake": "config manifest workarea",
            "query": "config workarea lake",
            "ledger": "config workarea",
            "expectations": "config workarea",
            "reports": "config manifest workarea",
            "alerts": "config workarea spec lake ledger reports",
            "budget": "config manifest workarea spec lake ledger",
            "transforms": "config workarea spec sources",
            "steps": "plan config manifest workarea spec sources transforms lake ledger expectations reports "
            "alerts budget",
            "proof": "config manifest workarea spec lake steps",
            "explore": "config workarea spec ledger reports budget steps running",
            "hierarchies": "config reports",
            "evidence": "config manifest workarea lake reports proof steps",
            "running": "plan config workarea spec sources transforms lake ledger reports alerts budget steps "
            "proof evidence",
            "checking": "config workarea spec sources lake ledger reports budget steps running explore",
            "cli": "config manifest workarea spec sources lake query ledger reports budget steps proof "
            "running checking explore hierarchies evidence",
        },
        AIRFLOW: {
            "root": "compat operators",
            "compat": "",
            "hooks": "compat",
            "task": "compat hooks",
            "triggers": "hooks",
            "operators": "compat hooks task triggers",
            "plugin": "compat hooks",
            "example_dags": "root",
        },
    }.items()
}

# What each floor may not know.
_HEAVY = frozenset(
    [
        "pandas",
        "pyarrow",
        "sklearn",
        "numba",
        "great_expectations",
        "deltalake",
        "duckdb",
        "matplotlib",
        "scipy",
        "opendp",
        "pyspark",
    ]
)
_IO = frozenset(["os", "pathlib", "time", "socket", "tempfile", "shutil", "subprocess"])
_FOREIGN: Mapping[str, frozenset[str]] = {
    ENGINE: frozenset(
        {RELEASE, AIRFLOW, "dags", "deploy", "airflow", "great_expectations", "deltalake", "logging"}
    ),
    RELEASE: frozenset({AIRFLOW, "dags", "deploy", "airflow"}),
    AIRFLOW: frozenset({"dags", "deploy"}),
}
# Its classes derive from those of Great Expectations; it is imported inside functions alone.
GX_CLASSES = "privacy_release.expectations.table_expectations"
# One keeps machine code in files, the other looks at the sources to know whether that code is still theirs.
OF_FILES = {"privacy_engine.compiled": {"pathlib", "tempfile"}, "privacy_engine.kernel_digest": {"pathlib"}}
FAMILIES = frozenset(
    [
        *("anonymizers", "recoding", "synthesizers", "randomizers", "outliers", "learning", "fragments"),
        "structure",
    ]
)


def room(module: str) -> str:
    """The folder of a module below its package; `root` for the own modules of the package but the lowest."""
    parts = module.split(".")
    if module in LOWEST:
        return parts[1]
    is_folder = modules()[module].name == "__init__.py"
    return parts[1] if len(parts) > 2 or (is_folder and len(parts) == 2) else "root"


def of_floor(package: str) -> list[str]:
    return [module for module in modules() if top(module) == package]


def loaded_by(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {module: imports(module) & set(modules()) - {module} for module in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_a_circle_through_a_function_would_be_seen() -> None:
    nodes = statements(ast.parse("def f():\n    from privacy_engine.tables import schema"))
    assert list(imported_by(nodes)) == ["privacy_engine.tables.schema"]


def test_an_import_is_seen_wherever_a_statement_may_stand() -> None:
    source = """
class A:
    import a
    async def f():
        with x:
            import b
        for i in x:
            import c
        else:
            import d
        while x:
            import e
        try:
            import f
        except X:
            import g
        else:
            import h
        finally:
            import i
        match x:
            case 1:
                import j
        if x:
            import k
        elif y:
            import l
        else:
            import m
"""
    assert sorted(imported_by(statements(ast.parse(source)))) == list("abcdefghijklm")


def test_arrows_between_rooms_run_down_only() -> None:
    rooms = {package: {room(module) for module in of_floor(package)} for package in PACKAGES}
    assert {package: set(known) for package, known in ARROWS.items()} == rooms
    up = [
        f"{module} -> {name}"
        for module in modules()
        for name in imports(module) & set(modules())
        if top(name) == top(module) and room(name) not in {room(module), *ARROWS[top(module)][room(module)]}
    ]
    assert not up


def test_no_floor_knows_one_above_it_and_only_the_provider_knows_airflow() -> None:
    for package, foreign in _FOREIGN.items():
        known = {f"{m} -> {name}" for m in of_floor(package) for name in imports(m) if top(name) in foreign}
        assert not known


def test_only_the_spark_engine_knows_spark_and_only_engines_do_input_or_output() -> None:
    for module in of_floor(ENGINE):
        spark = module.startswith("privacy_engine.engines.spark")
        assert spark or "pyspark" not in map(top, imports(module)), module
        if room(module) == "engines":
            continue
        assert not _IO & set(map(top, imports(module))) - OF_FILES.get(module, set()), module
        calls = (
            n.func.id
            for n in ast.walk(tree(module))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        )
        assert not {"open", "print", "input"} & set(calls), module


def test_the_judge_and_the_tables_know_no_algorithm() -> None:
    for module in of_floor(ENGINE):
        if room(module) in ("verification", "tables"):
            known = {name.split(".")[1] for name in imports(module) if name.startswith("privacy_engine.")}
            assert not known & (FAMILIES | {"registry", "release"}), module


def test_algorithms_never_import_each_other() -> None:
    homes = {entry.home.partition(":")[0] for entry in METHODS.values()}
    assert not {home: imports(home) & homes - {home} for home in homes if imports(home) & homes - {home}}


def test_what_rehearses_a_plan_does_no_step_itself() -> None:
    rehearsing = [name for name in modules() if name.startswith("privacy_release.explore.")]
    for module in (*rehearsing, "privacy_release.cli.check", "privacy_release.cli.explore"):
        assert not [name for name in imports(module) if name.startswith("privacy_release.steps")], module


# Other names of steps are words of the YAML, of manifests or of the command line, too.
NAMES_OF_STEPS_ONLY = {"detect_outliers", "hold_out", "release_fragment"}


def test_the_name_of_a_step_is_in_its_plan_its_work_and_its_operator_only() -> None:
    allowed = ("privacy_release.plan.", "privacy_release.running.", "airflow_privacy_release.operators.")
    found = {
        f"{module}: {node.value}"
        for module in (*of_floor(RELEASE), *of_floor(AIRFLOW))
        if not module.startswith(allowed) and module not in (RELEASE, "airflow_privacy_release.step_tasks")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant) and node.value in NAMES_OF_STEPS_ONLY
    }
    assert not found
    assert {step.name for step in plan_with_all_steps().steps} >= NAMES_OF_STEPS_ONLY


def plan_with_all_steps() -> Plan:
    spec = load_spec(ROOT / "include" / "releases" / "adult_fragments.yaml")
    return plan_of(spec.model_copy(update={"outliers": object()}), attacked=True, mapped=True)


def test_a_package_has_at_most_twenty_files() -> None:
    count = defaultdict(int)
    for path in modules().values():
        count[path.parent] += path.name != "__init__.py"
    assert not {str(folder.relative_to(ROOT)): n for folder, n in count.items() if n > MOST_MODULES}


def test_every_room_says_in_one_sentence_what_it_is_for() -> None:
    folders = [module for module, path in modules().items() if path.name == "__init__.py"]
    assert not [module for module in folders if not (ast.get_docstring(tree(module)) or "").strip()]


def test_a_small_module_has_more_than_one_user() -> None:
    used = [name for module in modules() for name in imports(module)]
    used += [entry.home.partition(":")[0] for entry in chain(METHODS.values(), DETECTORS.values())] * 2
    lonely = [
        module
        for module, path in modules().items()
        if path.name != "__init__.py"
        and module not in LOOKED_UP
        and len(path.read_text().splitlines()) < SMALL
        and used.count(module) < 2
    ]
    assert not lonely


def loaded_with(modules_of_ours: Iterable[str]) -> dict[str, str]:
    """Our modules that importing these loads, each with the one that imports it first."""
    found, waiting = dict[str, str](), [(module, "a DAG file") for module in modules_of_ours]
    while waiting:
        module, by = waiting.pop()
        if module in found or module not in modules():
            continue
        found[module] = by
        parts = module.split(".")
        parents = {".".join(parts[:end]) for end in range(1, len(parts))}
        waiting += [(name, module) for name in imports_at_once(module) | parents]
    return found


def test_what_airflow_imports_at_parse_time_loads_nothing_heavy() -> None:
    """Airflow imports DAG files again and again, in processes that run no task, and each loads the plugin."""
    pages = "airflow_privacy_release.plugin."  # only the web server loads them
    roots = [name for name in of_floor(AIRFLOW) if not name.startswith(pages) or name == f"{pages}plugin"]
    loaded = loaded_with(roots)
    heavy = {name: by for name, by in loaded.items() if _HEAVY & set(map(top, imports_at_once(name)))}
    assert not heavy
    assert {"privacy_release.plan.plan", "privacy_release.spec.model"} <= loaded.keys()


def test_what_the_command_line_imports_at_its_start_loads_nothing_heavy() -> None:
    loaded = loaded_with(["privacy_release.cli.main"])
    assert not {name: by for name, by in loaded.items() if _HEAVY & set(map(top, imports_at_once(name)))}


def test_a_release_without_a_synthesizer_loads_no_statistics_of_scipy() -> None:
    """Importing these takes as long as a small release; `from scipy import ...` may import any of them."""
    slow = {"scipy", "scipy.stats", "scipy.interpolate", "scipy.optimize", "scipy.special"}
    steps = ("ingest", "validate", "outliers", "release", "verify", "publish", "producers.whole")
    loaded = loaded_with(
        ["privacy_release.running.run", *(f"privacy_release.steps.{step}" for step in steps)]
    )
    assert not {name: by for name, by in loaded.items() if slow & imports_at_once(name)}
    assert {"privacy_engine.tables.spread", "privacy_engine.synthesizers.model"} <= loaded.keys()


def test_no_parameter_of_an_operator_is_any() -> None:
    for name in airflow_privacy_release.__all__:
        member = getattr(airflow_privacy_release, name)
        for declared in classes(member) if inspect.isclass(member) else [member]:
            for parameter in own_arguments(declared).values():
                assert parameter.annotation not in (typing.Any, "Any", parameter.empty), (
                    f"{name}: {parameter}"
                )


def operator_of(key: str) -> str:
    """The operator that `make docs` writes for a method."""
    return f"{METHODS[key].home.partition(':')[2]}Operator"


@pytest.mark.parametrize("key", METHODS)
def test_the_operator_of_every_method_is_exported(key: str) -> None:
    name = operator_of(key)
    home = "`_HOME` of operators/airflow_privacy_release/__init__.py"
    assert name in airflow_privacy_release.__all__, f"add {name} to operators.methods in {home}"
    assert getattr(airflow_privacy_release, name).method == key


def test_every_method_has_a_family_and_a_row_in_the_table() -> None:
    exported = (getattr(airflow_privacy_release, name) for name in airflow_privacy_release.__all__)
    methods = {getattr(member, "method", None) for member in exported}
    assert {method for method in methods if isinstance(method, str)} <= set(METHODS)
    table = (ROOT / "docs/methods.md").read_text()
    for key, entry in METHODS.items():
        module, _, cls = entry.home.partition(":")
        assert entry.family is not Family.DETECTOR
        assert f"{module.removeprefix('privacy_engine.').replace('.', '/')}.py" in table, key
        assert operator_of(key) in table, key
        assert f"class {cls}" in modules()[module].read_text()
    for key, entry in DETECTORS.items():
        assert entry.family is Family.DETECTOR
        assert key.upper() in table, key


def test_methods_specifications_the_judge_and_the_command_line_load_nothing_that_they_do_not_use() -> None:
    """One interpreter imports one after the other: what the first must not load, it had not loaded."""
    rooms = tuple(f"privacy_engine.{name}" for name in FAMILIES)
    code = f"""
import sys
import privacy_engine.registry
privacy_engine.registry.method_names()
print([m for m in sys.modules if m.startswith({(*rooms, "numba", "opendp")!r})])
from privacy_release.spec.model import load_spec
load_spec({str(ROOT / "include" / "releases" / "adult_occupation.yaml")!r})
print({{"pandas", "pyarrow", "numba", "sklearn", "great_expectations", "deltalake"}} & set(sys.modules))
from privacy_engine import verify, ReleasePolicy
print("numba" in sys.modules)
import privacy_release.cli.main, privacy_release.running.run
privacy_release.read
print({{"airflow", "great_expectations"}} & set(sys.modules))
"""
    compiled, by_a_specification, by_the_judge, by_the_command_line = loaded_by(code).splitlines()
    assert compiled == "[]"
    assert by_a_specification == "set()"
    assert by_the_judge == "False"
    assert by_the_command_line == "set()"


# Speed is measured in `benchmarks/`. The first two wait for states and set clocks; this module names clocks.
# The last one measures what compiling costs, for the list of `warm`.
KNOW_THE_TIME = {
    ROOT / "tests" / name for name in ("waiting.py", "clock.py", "test_architecture.py", "signatures.py")
}
CLOCKS = {"monotonic", "perf_counter", "process_time", "sleep", "thread_time", "wait_for_timeout"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
CLOCK_IN_TEXT = re.compile(
    rf"\bimport\b[^#\n]*\btime\b|\bfrom time\b|\btime\.time\b|\b(?:{'|'.join(sorted(CLOCKS))})\b"
)
SHORTEST_DEADLINE = 300  # seconds
WAITING = {"communicate", "join", "settimeout", "timeout", "wait"}
# Parsing takes seconds: only a source with one of these words, which `has_a_clock` looks for, is parsed.
PERHAPS_A_CLOCK = re.compile(
    rf"\b(?:time|{'|'.join(sorted(CLOCKS))})\b"
    rf"|\btimeout\s*=\s*[(\d.]|\.(?:{'|'.join(sorted(WAITING))})\s*\(\s*[(\d.]"
)


def lines_with_a_clock(source: str) -> set[int]:
    """Lines that read a clock, sleep, or wait for a short time; also in programs that are text here."""
    if not PERHAPS_A_CLOCK.search(source):
        return set()
    nodes = list(ast.walk(ast.parse(source)))
    prose = {id(n.value) for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    return {node.lineno for node in nodes if id(node) not in prose and has_a_clock(node)}  # type: ignore[attr-defined]


def has_a_clock(node: ast.AST) -> bool:
    match node:
        case ast.Import(names):
            return "time" in {name.name for name in names}
        case ast.ImportFrom(module, names):
            return module == "time" or bool(CLOCKS & {name.name for name in names})
        case ast.Attribute(attr=name):
            return name in CLOCKS
        case ast.Constant(str(text)):
            return bool(CLOCK_IN_TEXT.search(text))
        case ast.keyword("timeout", ast.Constant(int(seconds) | float(seconds))):
            return seconds < SHORTEST_DEADLINE
        case ast.Call(ast.Attribute(attr=name), [ast.Constant(int(seconds) | float(seconds)), *_]):
            return name in WAITING and seconds < SHORTEST_DEADLINE
    return False


def test_no_test_depends_on_the_speed_of_the_machine() -> None:
    paths = {path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts}
    assert {
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths - KNOW_THE_TIME
        for line in lines_with_a_clock(path.read_text())
    } == set()


@pytest.mark.parametrize(
    "source",
    [
        "import json, time as t",
        "from time import perf_counter",
        "from asyncio import sleep",
        "waiting.time.sleep(1)",
        "monkeypatch.setattr(other.time, 'monotonic', clock)",
        "code = 'import sys, time; time.sleep(2)'",
        "code = f'''\nfrom time import sleep\n{rest}'''",
        "page.wait_for_timeout(1_000)",
        "queue.get(timeout=5)",
        "event.wait(0.2)",
        "@pytest.mark.timeout(60)\ndef test(): pass",
    ],
)
def test_a_clock_in_a_test_would_be_seen(source: str) -> None:
    assert lines_with_a_clock(source)


def test_other_words_of_time_are_no_clocks() -> None:
    assert not lines_with_a_clock(
        "'''It does not sleep.'''\nfrom datetime import time\nthread.join(DEADLINE)"
    )
