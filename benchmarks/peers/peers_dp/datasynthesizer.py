"""DataSynthesizer's correlated attribute mode (PrivBayes), two parents; domains given, not read from data.

As shipped it counts mutual information on strings that it joins row by row and takes many minutes; here the
same mutual information is counted on integer codes, in threads instead of processes. What it selects is not
touched.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
from DataSynthesizer.lib import PrivBayes

PARENTS = 2


def synthetic(table: pd.DataFrame, sizes: Mapping[str, int], epsilon: float) -> pd.DataFrame:
    """As many rows as the table has."""
    # It evaluates the text of a list of numbers, which numpy 2 writes otherwise.
    np.set_printoptions(legacy="1.25")
    PrivBayes.mutual_information = _counted_on(table, sizes)
    PrivBayes.Pool = ThreadPool
    seed = int(np.random.SeedSequence().generate_state(1)[0])  # its own default is the same seed each time
    with tempfile.TemporaryDirectory() as folder:
        source, domains, description = (
            Path(folder) / name for name in ("table.csv", "domains.json", "model.json")
        )
        table.to_csv(source, index=False)
        domains.write_text(json.dumps({name: list(range(size)) for name, size in sizes.items()}))
        describer = DataDescriber(category_threshold=max(sizes.values()) + 1)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=str(source),
            k=PARENTS,
            epsilon=epsilon,
            attribute_to_datatype=dict.fromkeys(sizes, "Integer"),
            attribute_to_is_categorical=dict.fromkeys(sizes, True),
            attribute_to_is_candidate_key=dict.fromkeys(sizes, False),
            categorical_attribute_domain_file=str(domains),
            seed=seed,
        )
        describer.save_dataset_description_to_file(str(description))
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(len(table), str(description), seed=seed)
    return generator.synthetic_dataset.astype(int)


Score = Callable[[pd.Series, pd.DataFrame], float]


def _counted_on(table: pd.DataFrame, sizes: Mapping[str, int]) -> Score:
    codes = {name: table[name].to_numpy() for name in table.columns}

    def mutual_information(child: pd.Series, parents: pd.DataFrame) -> float:
        joint, width = np.zeros(len(table), dtype=np.int64), 1
        for name in parents.columns:
            joint, width = joint * sizes[name] + codes[name], width * sizes[name]
        counts = np.bincount(
            joint * sizes[child.name] + codes[child.name], minlength=width * sizes[child.name]
        )
        p = counts.reshape(width, -1) / len(table)
        outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
        return float(np.sum(p[p > 0] * np.log(p[p > 0] / outer[p > 0])))

    return mutual_information
