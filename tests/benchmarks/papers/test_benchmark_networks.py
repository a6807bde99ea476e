"""Published networks: the parser of the Bayesian interchange format, on a small text."""

import numpy as np
import pytest

from benchmarks.papers.networks import parse_bif

TEXT = """network unknown {
}
variable Wet {
  type discrete [ 3 ] { dry, damp, soaked };
}
variable Rain {
  type discrete [ 2 ] { True, False };
}
variable Hose {
  type discrete [ 2 ] { on, off };
}
probability ( Wet | Rain, Hose ) {
  (True, on) 0.0, 0.1, 0.9;
  (False, on) 0.1, 0.6, 3e-1;
  (True, off) 0.1, 0.7, 0.2;
  (False, off) 0.9999, 0.0001, 0.0;
}
probability ( Rain ) {
  table 0.25, 0.75;
}
probability ( Hose | Rain ) {
  (True) 0.0, 1.0;
  (False) 0.5, 0.5;
}
"""


def test_variables_values_and_parents_are_read_in_any_order_of_declaration() -> None:
    found = parse_bif(TEXT)
    assert found.values == {
        "Wet": ("dry", "damp", "soaked"),
        "Rain": ("True", "False"),
        "Hose": ("on", "off"),
    }
    assert set(found.network.edges) == {("Rain", "Hose"), ("Rain", "Wet"), ("Hose", "Wet")}
    assert [node.attribute for node in found.network.nodes] == ["Rain", "Hose", "Wet"]
    assert found.schema.names == ("Wet", "Rain", "Hose")


def test_a_row_stands_where_its_parents_values_say() -> None:
    table = {node.attribute: node.table for node in parse_bif(TEXT).network.nodes}["Wet"]
    assert table[1, 0].tolist() == pytest.approx([0.1, 0.6, 0.3])  # no rain, hose on
    assert table[0, 1].tolist() == pytest.approx([0.1, 0.7, 0.2])  # rain, hose off


def test_drawn_records_follow_the_exact_marginals() -> None:
    found = parse_bif(TEXT)
    drawn = found.draw(200_000, np.random.default_rng(1))
    shares = [(drawn["Wet"] == value).mean() for value in found.values["Wet"]]
    # 8 standard deviations of a share: a fixed seed that fails by chance has probability below 1e-14
    assert shares == pytest.approx(found.network.marginal(["Wet"]).tolist(), abs=8 * 0.5 / 200_000**0.5)
    assert not ((drawn["Rain"] == "True") & (drawn["Hose"] == "on")).any()
    found.schema.check(drawn)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[ 3 ]", "[ 4 ]", "'Wet' must have 4 values, got 3"),
        ("  (True, off) 0.1, 0.7, 0.2;\n", "", "'Wet' must be given"),
        ("0.25, 0.75", "0.25, 0.65", "'Rain' must be given and sum to 1"),
        ("probability ( Rain ) {\n  table 0.25, 0.75;\n}\n", "", "one distribution; 3 and 2"),
    ],
)
def test_a_text_that_is_no_whole_network_is_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError, match=message):
        parse_bif(TEXT.replace(old, new))
