"""How much of Adult each method keeps, and whether what it claims is so: by `verify` and by pycanon."""

from collections.abc import Mapping, Sequence

from benchmarks.peers import peers
from benchmarks.peers.releases import Result, of_method, of_peer
from benchmarks.report import Section, line_plot, markdown_table, verdict
from benchmarks.tables import Table
from privacy_engine import load_method

KS = (5, 10, 50)
SEEDS = (1, 2, 3, 4, 5)
L = 3
PLAIN: dict[str, object] = {"refine": False, "price": "whole"}
BOTTOM_UP = "Bottom-up, refined (default)"
ILP_BASED = "ILP-based, refined, l = 3 (default)"
METHODS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "Mondrian, widest cut (paper)": ("mondrian", {"rule": "widest"}),
    "Mondrian, cut of least loss (default)": ("mondrian", {}),
    "Bottom-up, price of the union, batches and splits": ("bottom_up", PLAIN),
    "Bottom-up, price of the increase": ("bottom_up", {"refine": False}),
    "Bottom-up, price of the union, refined": ("bottom_up", {"price": "whole"}),
    BOTTOM_UP: ("bottom_up", {}),
    "Bottom-up, refined, l = 3": ("bottom_up", {"l": L}),
    "ILP-based, plain, l = 3, equal weights": (
        "ilp_l_diversity",
        {"l": L, "reading": "equal", "refine": False},
    ),
    "ILP-based, refined, l = 3, equal weights": ("ilp_l_diversity", {"l": L, "reading": "equal"}),
    ILP_BASED: ("ilp_l_diversity", {"l": L}),
    "ILP-based, refined, l = 3, complement": ("ilp_l_diversity", {"l": L, "reading": "complement"}),
    "KACLUK (paper)": ("kacluk", {}),
    "KACLUK, l = 3": ("kacluk", {"l": L}),
}
PLOTTED = (
    "Mondrian, cut of least loss (default)",
    "Bottom-up, price of the union, batches and splits",
    BOTTOM_UP,
    ILP_BASED,
    "KACLUK (paper)",
)
# What a naive agglomeration with three sweeps reaches: the refined Bottom-up may not lose more.
BAR = dict(zip(peers.QUOTED_KS, peers.QUOTED[-1].gcp, strict=True))
AIM = {5: 0.020, 10: 0.034, 50: 0.088}

NOTE = """Eight quasi-identifiers, sensitive attribute occupation. GCP is the mean NCP of a quasi-
identifier cell with equal weights; the lowest is best. A cell with several values of a tree pays for the
leaves under their lowest common ancestor (LCA) / for its own values alone. Seeds {seeds} (means);
peers ran once. Figures *measured elsewhere* are of the same table and hierarchies, LCA. A peer's classes
are charged by their tightest intervals and common ancestors, which for anjana's global recoding is
kinder than its own labels."""
OTHERS = """Other figures: discernibility in millions / records a class / HASR, the share of classes with
a single sensitive value (a method that claims no l does not look at it) / CPU seconds of the whole call."""


Results = dict[str, dict[int, Result]]


def run(
    table: Table, *, ks: Sequence[int] = KS, seeds: Sequence[int] = SEEDS, with_peers: bool = True
) -> Section:
    """Measure and describe."""
    ours: Results = {name: {} for name in METHODS}
    for name, (key, parameters) in METHODS.items():
        for k in ks:
            ours[name][k] = of_method(table, load_method(key, k=k, **parameters), seeds)
            r = ours[name][k]
            print(f"[quality] {name}, k = {k}: GCP {r.gcp_lca:.4f}, {r.cpu:.2f} CPU s", flush=True)
    measured: Results = {"anonypy, Mondrian": {}, "anjana, global recoding, 5 % suppression": {}}
    if with_peers:
        for (name, found), call in zip(
            measured.items(), (peers.anonypy_mondrian, peers.anjana_global), strict=True
        ):
            for k in ks:
                found[k] = of_peer(table, k, call)
                print(f"[quality] {name}, k = {k}: GCP {found[k].gcp_lca:.4f}", flush=True)
    return describe(ours, {name: found for name, found in measured.items() if found}, ks, seeds)


def describe(ours: Results, measured: Results, ks: Sequence[int], seeds: Sequence[int]) -> Section:
    """Tables, judgements and the plot."""
    quoted = {q.name: dict(zip(peers.QUOTED_KS, q.gcp, strict=True)) for q in peers.QUOTED}
    loss = [
        [name, *(f"{found[k].gcp_lca:.4f} / {found[k].gcp_own:.4f}" for k in ks)]
        for name, found in ours.items()
    ]
    loss += [
        [f"*{name}, measured here*", *(f"{found[k].gcp_lca:.4f} / {found[k].gcp_own:.4f}" for k in ks)]
        for name, found in measured.items()
    ]
    loss += [
        [f"*{name}, measured elsewhere*", *(f"{at[k]:.4f}" if k in at else "" for k in ks)]
        for name, at in quoted.items()
    ]
    everything = ours | measured
    lines: dict[str, dict[int, float]] = {
        name: {k: r.gcp_lca for k, r in everything[name].items()} for name in (*PLOTTED, *measured)
    }
    lines |= {name: {k: v for k, v in at.items() if k in ks} for name, at in quoted.items()}
    return Section(
        title="1. Quality on Adult",
        blocks=[
            NOTE.format(seeds=", ".join(map(str, seeds))),
            markdown_table(["GCP, LCA / own", *(f"k = {k}" for k in ks)], loss),
            *verdicts(ours, ks, len(seeds)),
            "gcp",
            "What each method claims, and the least that was measured on its releases by `verify` and, "
            "independently, by pycanon.",
            markdown_table(
                ["claimed, by verify, by pycanon", *(f"k = {k}" for k in ks), "all hold"],
                [
                    [
                        name,
                        *(_guarantee(found[k]) for k in ks),
                        "yes" if all(f.kept for f in found.values()) else "**NO**",
                    ]
                    for name, found in everything.items()
                ],
            ),
            OTHERS,
            markdown_table(
                ["", *(f"k = {k}" for k in ks)],
                [[name, *(_others(found[k]) for k in ks)] for name, found in everything.items()],
            ),
        ],
        plots={
            "gcp": line_plot(
                {name: line for name, line in lines.items() if line},
                x="k",
                y="GCP (LCA)",
                log=True,
                dashed=[*quoted, *measured],
            )
        },
    )


def verdicts(ours: Results, ks: Sequence[int], runs: int) -> list[str]:
    """Judgements of the loss and of the guarantees."""
    refined = {k: ours[BOTTOM_UP][k].gcp_lca for k in ks}
    figures = ", ".join(f"{gcp_:.4f} at k = {k}" for k, gcp_ in refined.items())
    judged = []
    for limits, what in (
        (BAR, "loses no more than a naive agglomeration with three sweeps"),
        (AIM, "reaches its aim"),
    ):
        asked = {k: limits[k] for k in ks if k in limits}
        if asked:
            judged.append(
                verdict(
                    f"Bottom-up, refined, {what}, GCP {' / '.join(f'{v:.4f}' for v in asked.values())}",
                    all(round(refined[k], 4) <= v for k, v in asked.items()),
                    figures,
                    runs=runs,
                )
            )
    held = [r.kept for found in ours.values() for r in found.values()]
    judged.append(
        verdict(
            "every claimed guarantee is confirmed by `verify` and by pycanon",
            all(held),
            f"{sum(held)} of {len(held)} settings",
        )
    )
    return ["\n".join(judged)]


def _guarantee(r: Result) -> str:
    return "; ".join(
        ", ".join(map(str, numbers)) for numbers in zip(r.claimed, r.verified, r.counted, strict=True)
    )


def _others(r: Result) -> str:
    return f"{r.discernibility / 1e6:.2f} / {r.class_size:.1f} / {r.hasr:.3f} / {r.cpu:.2f}"
