"""One operator per anonymizer: the parameters of its dataclass, by the same names and with the same defaults.

Each class has its method's own parameters, `AnonymizerOperator` those that all methods have. All of them are
template fields, so that they can be mapped (`.partial(...).expand(k=[5, 10, 20])`), rendered
(`k="{{ params.k }}"`) and seen in the UI.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.operators.method import MethodOperator


class AnonymizerOperator(MethodOperator):
    """Recode the quasi-identifiers of each class of records alike, and stage the release.

    Every class has at least k persons, at least l distinct values of each sensitive attribute where l is
    given, and meets the models of `require`. Each record counts as a person unless the schema names one.

    Args:
        k: least number of persons in a class, >= 2.
        l: least number of distinct values of each sensitive attribute in a class; None = no such demand.
        require: further privacy models, as their dicts, that every class must satisfy.
        suppression_limit: largest share of records that may be suppressed, 0 .. 1. A record is suppressed
            only where its class saves more without it than it loses: more leave never gives more loss.
        intervals: how intervals are written: as two typed columns, `bounds`, both inside; as `text`; or by
            their `midpoint` alone.
        seed: of the random choices; None takes fresh entropy.
        history, series, lake: how people who are in earlier releases of the table `series`, too, are kept
            safe in all together, as of `ReleaseOperator`.
    """

    template_fields_renderers = {  # noqa: RUF012  Airflow's own declaration
        "table": "json",
        "require": "json",
        "history": "json",
    }
    ui_color = "#e5f3e1"

    def __init__(
        self,
        *,
        k: int | str = 5,
        l: int | str | None = None,  # noqa: E741  the field's own symbol
        require: Sequence[Mapping[str, Any]] = (),
        suppression_limit: float | str = 0.0,
        intervals: str = "bounds",
        seed: int | str | None = None,
        history: Mapping[str, Any] | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.k = k
        self.l = l
        self.require = require
        self.suppression_limit = suppression_limit
        self.intervals = intervals
        self.seed = seed
        self.history = history
        self.series = series
        self.lake = lake


class MondrianOperator(AnonymizerOperator):
    """Cut the table into ever smaller boxes for as long as each meets the guarantees: the quick baseline.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`.

    Args:
        rule: which of the allowed cuts is taken: `least_loss`, or `widest`, the paper's.
    """

    method = "mondrian"

    def __init__(self, *, rule: str = "least_loss", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rule = rule


class BottomUpOperator(AnonymizerOperator):
    """Merge each class of fewer than k records with the class that costs least, over the whole table.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`.

    Args:
        sensitive: attribute from which the weights come; None = the only one. Unused with equal weights.
        reading: weights of the quasi-identifiers: `equal`, or `literal` and `complement`, which come from a
            sensitive attribute.
        price: what a merge costs: `increase`, what it adds to the table's loss, or `whole`, the loss of the
            union.
        refine: move, swap and regroup records afterwards wherever the total loss falls.
        regroup: sweeps after `refine` in which neighbouring classes are taken apart and put together anew;
            0 = none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one before. Up to
            k = 10, where no other model is asked for, a search by columns comes first, 6 CPU s at k = 5.
            None are made without `refine`, where several rows may be of one person, or where a model bounds
            the distribution of the sensitive values.
        block_size: tables with more records are cut into blocks of at most so many; None = never.
    """

    method = "bottom_up"

    def __init__(
        self,
        *,
        sensitive: str | None = None,
        reading: str = "equal",
        price: str = "increase",
        refine: bool | str = True,
        regroup: int | str = 0,
        block_size: int | str | None = 50_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sensitive = sensitive
        self.reading = reading
        self.price = price
        self.refine = refine
        self.regroup = regroup
        self.block_size = block_size


class ILPLDiversityOperator(AnonymizerOperator):
    """Cluster the sensitive values, merge records inside each cluster, and repair the classes to l-diversity.

    A sensitive value too rare to find l - 1 companions joins the nearest cluster; the release's notes say how
    many did, and how many clusters there are. Guarantees k-anonymity and distinct l-diversity, and `require`
    where given, see `AnonymizerOperator`.

    Args:
        l: least number of distinct sensitive values in a class, >= 2.
        sensitive: the sensitive attribute; None = the only one.
        repair: what is done with a class that misses l: `merge` it with another, `distort` sensitive values,
            as the paper does, which makes them false, or `suppress` it within the suppression limit.
        reading: how weights come from the utility matrix, whose low entries say much: `literal`, its entries
            as the paper prints them, `complement`, what says much is kept most precise, or `equal`.
        utility: an expert's utility matrix instead of the data's: a row for each value of the attribute, in
            their order, a column for each quasi-identifier; entries in [0, 1], low = says much.
        price: what a merge costs: `increase`, what it adds to the table's loss, or `whole`, the loss of the
            union.
        refine: move, swap and regroup records afterwards wherever the total loss falls.
        regroup: sweeps after `refine` in which neighbouring classes are taken apart and put together anew;
            0 = none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one before. Up to
            k = 10, where no other model is asked for, a search by columns comes first, 6 CPU s at k = 5.
            None are made without `refine`, where several rows may be of one person, or where a model bounds
            the distribution of the sensitive values.
        block_size: clusters with more records are cut into blocks of at most so many; None = never.
    """

    method = "ilp_l_diversity"

    def __init__(
        self,
        *,
        l: int | str = 3,  # noqa: E741  the field's own symbol
        sensitive: str | None = None,
        repair: str = "merge",
        reading: str = "literal",
        utility: Sequence[Sequence[float]] | None = None,
        price: str = "increase",
        refine: bool | str = True,
        regroup: int | str = 0,
        block_size: int | str | None = 50_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(l=l, **kwargs)
        self.sensitive = sensitive
        self.repair = repair
        self.reading = reading
        self.utility = utility
        self.price = price
        self.refine = refine
        self.regroup = regroup
        self.block_size = block_size


class KACLUKOperator(AnonymizerOperator):
    """Cluster the sensitive values, then merge records at random inside each cluster: a baseline.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`.

    Args:
        sensitive: attribute whose values are clustered; None = the only one.
        clusters: number of clusters of sensitive values, >= 1.
        refine: move records afterwards wherever the total loss falls; then it is no longer the baseline.
    """

    method = "kacluk"

    def __init__(
        self,
        *,
        sensitive: str | None = None,
        clusters: int | str = 3,
        refine: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sensitive = sensitive
        self.clusters = clusters
        self.refine = refine


class OBPAOperator(AnonymizerOperator):
    """Order the records by density (OPTICS) and cut the order into classes; attributes have personal weights.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`.

    Args:
        weights: how much each quasi-identifier counts in distance and loss, >= 0; 1 where none is given.
        order: in which order the records are cut: `optics`, or `lexicographic`, a plain sort.
        distance: by which the order is made: `paper` or `entropy`; None = `entropy` for the suppression
            model, else `paper`.
        cut: how the order is cut: `exact`, where the loss is least, or `peaks`, where the reachability is
            highest, which needs the order `optics`.
        outliers: what becomes of the records set aside: `assign` each to the class where it costs least,
            `suppress` them, or `group` them among themselves.
        outlier_share: share of the records to set aside, those of largest core distance; 0 .. 1, 1 excluded.
        model: what becomes of a cell that its class does not share: `generalization` or `suppression`.
        min_samples: records within its core distance that make a record a core point, >= 1.
        refine: move, swap and regroup records afterwards wherever the total loss falls.
        regroup: sweeps after `refine` in which neighbouring classes are taken apart and put together anew;
            0 = none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one before. Up to
            k = 10, where no other model is asked for, a search by columns comes first, 6 CPU s at k = 5.
            None are made without `refine`, where several rows may be of one person, or where a model bounds
            the distribution of the sensitive values.
        block_size: tables with more records are cut into blocks of at most so many, each with an order of its
            own, which takes far less time; None = never.
    """

    method = "obpa"

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | str | None = None,
        order: str = "optics",
        distance: str | None = None,
        cut: str = "exact",
        outliers: str = "assign",
        outlier_share: float | str = 0.0,
        model: str = "generalization",
        min_samples: int | str = 4,
        refine: bool | str = True,
        regroup: int | str = 0,
        block_size: int | str | None = 32_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weights = weights
        self.order = order
        self.distance = distance
        self.cut = cut
        self.outliers = outliers
        self.outlier_share = outlier_share
        self.model = model
        self.min_samples = min_samples
        self.refine = refine
        self.regroup = regroup
        self.block_size = block_size


class DSAEDOperator(AnonymizerOperator):
    """Cluster the records by density (DBSCAN), and cut each cluster in the order of the table: a baseline.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`.

    Args:
        min_samples: records within eps that make a record a core point, >= 1; None = k.
        eps_quantile: eps is this quantile of the records' core distances, so that such a share of the records
            are core points, 0 .. 1.
        model: what becomes of a cell that its class does not share: `generalization` or `suppression`.
        block_size: tables with more records are cut into blocks of at most so many; None = never.
    """

    method = "dsaed"

    def __init__(
        self,
        *,
        min_samples: int | str | None = None,
        eps_quantile: float | str = 0.5,
        model: str = "generalization",
        block_size: int | str | None = 32_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.min_samples = min_samples
        self.eps_quantile = eps_quantile
        self.model = model
        self.block_size = block_size


class RFKAOperator(AnonymizerOperator):
    """Keep the features by which a random forest predicts a class label best, as far as k allows.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`. The choice of the
    features follows the label and tells something of it.

    Args:
        target: the class label, a sensitive or insensitive attribute; None = the only sensitive one.
        bins: number of equal-width bins of a numeric attribute whose schema names none, >= 2.
        one_hot: whether each value or bin is a feature, as in the paper, and what is not kept of an attribute
            falls into one group; else each attribute is one feature.
        generalize: whether a feature's coarser forms are tried before it is dropped; the paper does not.
        order: which feature is tried next: `worth`, the most important, as in the paper, or `gain`, which
            tells most of the label beside those already kept.
        trees: number of trees, each fully grown; 1,000 in the paper.
    """

    method = "rfka"

    def __init__(
        self,
        *,
        target: str | None = None,
        bins: int | str = 5,
        one_hot: bool | str = True,
        generalize: bool | str = True,
        order: str = "worth",
        trees: int | str = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.bins = bins
        self.one_hot = one_hot
        self.generalize = generalize
        self.order = order
        self.trees = trees


class GreedyHamdistOperator(AnonymizerOperator):
    """Keep the features that tell most pairs of records of different labels apart, as far as k allows.

    Guarantees k-anonymity, and l and `require` where given, see `AnonymizerOperator`. The choice of the
    features follows the label and tells something of it.

    Args:
        target: the class label, a sensitive or insensitive attribute; None = the only sensitive one.
        bins: number of equal-width bins of a numeric attribute whose schema names none, >= 2.
        one_hot: whether each value or bin is a feature, as in the paper, and what is not kept of an attribute
            falls into one group; else each attribute is one feature.
        generalize: whether a feature's coarser forms are tried before it is dropped; the paper does not.
        order: which feature is tried next: `worth`, that tells most pairs apart, as in the paper, or `gain`,
            which tells most of the label beside those already kept.
    """

    method = "greedy_hamdist"

    def __init__(
        self,
        *,
        target: str | None = None,
        bins: int | str = 5,
        one_hot: bool | str = True,
        generalize: bool | str = True,
        order: str = "worth",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.bins = bins
        self.one_hot = one_hot
        self.generalize = generalize
        self.order = order
