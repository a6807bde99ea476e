"""One operator for each method, with the parameters of the method's dataclass. Made by `make docs`.

All parameters are template fields, so that they can be mapped (`.partial(...).expand(k=[5, 10, 20])`),
rendered (`k="{{ params.k }}"`) and seen in the UI. Each value of a parameter that shapes a private
measurement is a separate release and spends its own epsilon: `.expand(epsilon=[0.1, 0.2])` books 0.3. Other
`rows` are drawn from the same model and cost nothing. Epsilon is booked before any noise is drawn, and a
retry on the same table costs nothing.

The operators of a family share a base, which has the parameters that all its methods take.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_privacy_release.operators.method import MethodOperator
from airflow_privacy_release.operators.release import require_policy
from airflow_privacy_release.task.former import formerly


class AnonymizerOperator(MethodOperator):
    """Recode the quasi-identifiers of each class of records to a common value.

    Every class has at least k persons, at least l distinct values of each sensitive attribute if l is given,
    and satisfies the models of `require`. Each record counts as a person unless the schema names one.

    Args:
        k: Least number of persons in a class, >= 2. Each record counts as a person unless the schema names
            one.
        l: Least number of distinct values of each sensitive attribute in a class; None for no requirement.
        require: Further privacy models, or their dicts, that every class must satisfy.
        suppression_limit: Largest share of records that may be suppressed, 0 .. 1. A record is suppressed
            only if its class saves more than the record loses, so that a larger share never gives more loss.
            If a model compares classes with the table, the search is repeated a few times without the records
            of the rarest sensitive values and without outliers, and the recoding of least loss is released.
            If rows are linked, groups that fail are suppressed, the smallest first, and also rows without a
            match in the trajectories of their class.
        intervals: Form of an interval in the release: `bounds`, two typed columns, both inside; `text`; or
            `midpoint`.
        seed: Seed of the random choices; None takes fresh entropy. For a differentially private method it
            chooses which records are sampled from the measured model, never the noise, and None derives it
            from that model. For a randomizer it is used for `seeded` answers only.
        history: Protection of people who are also in earlier releases of `series`, in all releases together;
            the table must have been ingested with `person`. A mapping with `policy`, as of `VerifyOperator`,
            and, to use other numbers than the policy requires, `k`, `m`, `departures`, `reserve` and
            `counterfeits`, as of the field `history` of a specification. None: the release is made as if it
            were the first.
        series: Release table that the release will go to, for checks against its earlier releases, to which
            `history` refers, too. Refused before anything is booked: memoised answers with another secret
            than the last release, numeric columns whose types differ from the table's, and a ledger that
            lacks an entry which paid for one of its releases. Publishing refuses other secrets and types in
            any case.
        lake: Airflow connection ID of the lake of that table.
    """

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
        lake: str = "lake_default",
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


class SynthesizerOperator(MethodOperator):
    """Measure a noisy distribution of the records, and draw new records from it.

    The measurement is differentially private. Neighbours differ in one record, which is replaced, and the
    number of records is public. If the schema names a person, they differ in all rows of one person, and the
    number of persons is public.

    Args:
        epsilon: Whole privacy loss of a measurement, > 0, for one record replaced; with `max_rows` or
            `weight`, for all rows of one person.
        rows: Number of records to draw. None: as many as the source has; with `max_rows`, about as many as
            contributed, by a noisy count; with `weight`, as many as there are persons.
        levels: Level of its hierarchy at which the values of an attribute are distinguished, by attribute; 0,
            the values themselves, for the others. Released values are leaves in any case.
        max_rows: Most rows of a person that are measured, >= 1, chosen at random; requires a schema that
            names a person.
        weight: Alternative to `max_rows`: `person`, all rows of a person weigh one together. The records
            drawn are then like rows found by first choosing a person, each with equal probability, and then
            one of that person's rows.
        quantile_share: Part of epsilon (of rho, with a delta) for the quantile bins of a number with wide
            bounds or `scale: quantiles`, in (0, 1); of several such numbers together at most .25, or this if
            it is more. Nothing is spent on it if the schema has none.
        seed: Seed of the random choices; None takes fresh entropy. For a differentially private method it
            chooses which records are sampled from the measured model, never the noise, and None derives it
            from that model. For a randomizer it is used for `seeded` answers only.
        budget: Data set whose privacy budget is spent; required if the release makes a claim of differential
            privacy.
        policy: Requirements that the release must meet, as for `VerifyOperator`; required with a budget. A
            release that the policy or the floor policy would refuse in the end is refused before anything is
            booked.
        ledger: Airflow connection ID of the budget's ledger.
        promise: Promise that all releases of the schedule keep together, as the field `budget.promise` of a
            specification, and `schedule`, the name under which they count together. None: the release is paid
            by itself.
        series: Release table that the release will go to, for checks against its earlier releases, to which
            `history` refers, too. Refused before anything is booked: memoised answers with another secret
            than the last release, numeric columns whose types differ from the table's, and a ledger that
            lacks an entry which paid for one of its releases. Publishing refuses other secrets and types in
            any case.
        lake: Airflow connection ID of the lake of that table.
    """

    ui_color = "#e3eefb"

    @formerly(over_time="promise")
    def __init__(
        self,
        *,
        epsilon: float | str = 1.0,
        rows: int | str | None = None,
        levels: Mapping[str, int] | str | None = None,
        max_rows: int | str | None = None,
        weight: str | None = None,
        quantile_share: float | str = 0.08,
        seed: int | str | None = None,
        budget: str,
        policy: str | Mapping[str, Any],
        ledger: str = "ledger_default",
        promise: Mapping[str, Any] | None = None,
        series: str | None = None,
        lake: str = "lake_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.rows = rows
        self.levels = levels
        self.max_rows = max_rows
        self.weight = weight
        self.quantile_share = quantile_share
        self.seed = seed
        self.budget = budget
        self.policy = policy
        self.ledger = ledger
        self.promise = promise
        self.series = series
        self.lake = lake


class RandomizerOperator(MethodOperator):
    """Randomize the answer of each individual to each attribute.

    Quasi-identifiers and sensitive attributes are randomized. Insensitive attributes are released unchanged,
    and the release then makes no claim for the whole record. Identifiers are dropped, and rows are sorted by
    their released values. If a release makes a claim, it is local differential privacy: the epsilons of the
    attributes add up for a person.

    Args:
        randomness: Source of the random bits. `system`: fresh in every release, so that repeated releases of
            the same people weaken their protection. `memoised`: the same answer as long as a value does not
            change; requires a secret. `seeded`: from the seed; not private, and the manifest says so.
        individual: Identifier by which memoised answers are remembered; required if the schema has several.
        seed: Seed of the random choices; None takes fresh entropy. For a differentially private method it
            chooses which records are sampled from the measured model, never the noise, and None derives it
            from that model. For a randomizer it is used for `seeded` answers only.
        secret: Airflow connection ID whose password is the secret of memoised answers: at least 32 random
            bytes, the same in every release of a table.
        replaces: Fingerprint of the earlier secret, to replace it on purpose.
        series: Release table that the release will go to, for checks against its earlier releases, to which
            `history` refers, too. Refused before anything is booked: memoised answers with another secret
            than the last release, numeric columns whose types differ from the table's, and a ledger that
            lacks an entry which paid for one of its releases. Publishing refuses other secrets and types in
            any case.
        lake: Airflow connection ID of the lake of that table.
        budget: Data set whose privacy budget is spent; required if the release makes a claim of differential
            privacy.
        policy: Requirements that the release must meet, as for `VerifyOperator`; required with a budget. A
            release that the policy or the floor policy would refuse in the end is refused before anything is
            booked.
        ledger: Airflow connection ID of the budget's ledger.
    """

    ui_color = "#f6ecd9"

    def __init__(
        self,
        *,
        randomness: str = "system",
        individual: str | None = None,
        seed: int | str | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = "lake_default",
        budget: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
        ledger: str = "ledger_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.randomness = randomness
        self.individual = individual
        self.seed = seed
        self.secret = secret
        self.replaces = replaces
        self.series = series
        self.lake = lake
        self.budget = budget
        self.policy = policy
        self.ledger = ledger
        require_policy(self.task_id, budget, policy)


class StructureOperator(MethodOperator):
    """Invent records in the columns of another release, without reading a record.

    The release has the columns, types, labels, interval forms and null marks of the release that `like`
    describes, made of invented records. The privacy loss is 0.

    Args:
        rows: Number of invented records, >= 1; of several tables, of all together. If `like` suppresses
            records, fewer are released.
        like: Release whose columns the file has, as in the field `release` of a specification: an anonymizer
            or synthesizer and its parameters, such as {method: mondrian, k: 10, intervals: text}. Mondrian
            with its default parameters unless given.
        types: Type of a column of the source, as pandas names it, such as {age: int32}, where it does not
            follow from the schema. Numbers are int64 if both bounds are whole and float64 otherwise.
        seed: Seed of the random choices; None takes fresh entropy. For a differentially private method it
            chooses which records are sampled from the measured model, never the noise, and None derives it
            from that model. For a randomizer it is used for `seeded` answers only.
        series: Release table that the release will go to, for checks against its earlier releases, to which
            `history` refers, too. Refused before anything is booked: memoised answers with another secret
            than the last release, numeric columns whose types differ from the table's, and a ledger that
            lacks an entry which paid for one of its releases. Publishing refuses other secrets and types in
            any case.
        lake: Airflow connection ID of the lake of that table.
    """

    method = "structure"
    ui_color = "#f1e6f7"

    def __init__(
        self,
        *,
        rows: int | str = 1000,
        like: Mapping[str, Any] | str | None = None,
        types: Mapping[str, str] | str | None = None,
        seed: int | str | None = None,
        series: str | None = None,
        lake: str = "lake_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rows = rows
        self.like = like
        self.types = types
        self.seed = seed
        self.series = series
        self.lake = lake


class MondrianOperator(AnonymizerOperator):
    """Cut the table into ever smaller boxes while each box meets the guarantees: the quick baseline.

    Further parameters: see `AnonymizerOperator`.

    Args:
        rule: Rule that picks one of the allowed cuts: `least_loss`, or `widest`, the paper's.
    """

    method = "mondrian"

    def __init__(
        self,
        *,
        rule: str = "least_loss",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rule = rule


class BottomUpOperator(AnonymizerOperator):
    """Merge each class of fewer than k records with the class that costs least, over the whole table.

    Further parameters: see `AnonymizerOperator`.

    Args:
        sensitive: Attribute from which the weights come; None for the only one. Unused with equal weights.
        reading: Weights of the quasi-identifiers: `equal`, or `literal` and `complement`, which come from a
            sensitive attribute.
        price: Price of a merge: `increase`, the increase of the table's loss, or `whole`, the loss of the
            union.
        refine: Whether records are moved, swapped and regrouped afterwards wherever the total loss falls.
        regroup: Number of sweeps after `refine` in which neighbouring classes are taken apart and formed
            again; 0 for none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one before.
            Up to k = 10, where no other model is required, a search by columns comes first, which takes 6 CPU
            s at k = 5. No sweeps are made without `refine`, where several rows may belong to one person, or
            where a model bounds the distribution of the sensitive values.
        block_size: Most records that are cut in one block; larger tables are cut into several. None for no
            limit.
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

    A sensitive value that is too rare to find l - 1 companions joins the nearest cluster; the notes of the
    release give the number of such values and of clusters.

    Further parameters: see `AnonymizerOperator`.

    Args:
        l: Least number of distinct sensitive values in a class, >= 2.
        sensitive: Name of the sensitive attribute; None for the only one.
        repair: Remedy for a class that misses l: `merge` it with another, `distort` sensitive values, as the
            paper does, which makes them false, or `suppress` it within the suppression limit.
        reading: How weights are derived from the utility matrix, whose low entries are informative:
            `literal`, its entries as the paper prints them, `complement`, so that informative attributes are
            kept most precise, or `equal`.
        utility: Utility matrix (m, q) of an expert, instead of the data's: a row for each value of the
            attribute, in their order, and a column for each quasi-identifier; entries in [0, 1], low =
            informative.
        price: Price of a merge: `increase`, the increase of the table's loss, or `whole`, the loss of the
            union.
        merge_weights: Sensitive values whose weights price a merge: `all_values`, as the paper prints it, or
            `cluster`, the values of the cluster that the merged records belong to.
        refine: Whether records are moved, swapped and regrouped afterwards wherever the total loss falls.
        regroup: Number of sweeps after `refine` in which neighbouring classes are taken apart and formed
            again; 0 for none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one before.
            Up to k = 10, where no other model is required, a search by columns comes first, which takes 6 CPU
            s at k = 5. No sweeps are made without `refine`, where several rows may belong to one person, or
            where a model bounds the distribution of the sensitive values.
        block_size: Most records of a cluster that are merged in one block; larger clusters are cut into
            several. None for no limit.
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
        merge_weights: str = "all_values",
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
        self.merge_weights = merge_weights
        self.refine = refine
        self.regroup = regroup
        self.block_size = block_size


class KACLUKOperator(AnonymizerOperator):
    """Cluster the sensitive values, then merge records at random inside each cluster: a baseline.

    Further parameters: see `AnonymizerOperator`.

    Args:
        sensitive: Attribute whose values are clustered; None for the only one.
        clusters: Number of clusters of sensitive values, >= 1.
        refine: Whether records are moved afterwards wherever the total loss falls; then it is no longer the
            baseline.
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

    Further parameters: see `AnonymizerOperator`.

    Args:
        weights: Weight of each quasi-identifier in distance and loss, >= 0; 1 where none is given.
        order: Order in which the records are cut: `optics`, or `lexicographic`, a plain sort.
        distance: Distance that makes the order: `paper` or `entropy`; None for `entropy` with the suppression
            model and `paper` otherwise.
        cut: Places where the order is cut: `exact`, where the loss is least, or `peaks`, where the
            reachability is highest, which needs the order `optics`.
        outliers: Treatment of the records that are set aside: `assign` each to the class where it costs
            least, `suppress` them, or `group` them among themselves.
        outlier_share: Share of the records to set aside, those with the largest core distance; 0 .. 1, 1
            excluded.
        model: Form of a cell whose value the class does not share: `generalization` or `suppression`.
        min_samples: Number of records within its core distance that make a record a core point, >= 1.
        refine: Whether records are moved, swapped and regrouped afterwards wherever the total loss falls.
        regroup: Number of sweeps after `refine` in which neighbouring classes are taken apart and formed
            again; 0 for none. Each takes 1 to 2 CPU s for 30,000 records and gains less than the one before.
            Up to k = 10, where no other model is required, a search by columns comes first, which takes 6 CPU
            s at k = 5. No sweeps are made without `refine`, where several rows may belong to one person, or
            where a model bounds the distribution of the sensitive values.
        block_size: Most records with one order; larger tables are cut into blocks with separate orders, which
            takes O(n block) instead of O(n^2). None for no limit.
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

    Further parameters: see `AnonymizerOperator`.

    Args:
        min_samples: Number of records within eps that make a record a core point, >= 1; None for k.
        eps_quantile: Quantile of the records' core distances that is eps, so that this share of the records
            are core points, 0 .. 1.
        model: Form of a cell whose value the class does not share: `generalization` or `suppression`.
        block_size: Most records that are cut in one block; larger tables are cut into several. None for no
            limit.
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

    Features are ranked by out-of-bag permutation importance. The choice of the features follows the label and
    discloses something about it: no differential privacy is claimed.

    Further parameters: see `AnonymizerOperator`.

    Args:
        target: Name of the class label, a sensitive or insensitive attribute; None for the only sensitive
            one.
        bins: Number of equal-width bins of a numeric attribute whose schema names none, >= 2.
        one_hot: Whether each value or bin is a feature, as in the papers, with all values that are not kept
            in one group; otherwise each attribute is one feature.
        generalize: Whether a feature's coarser forms are tried before it is dropped; the papers do not.
        order: Next feature to try: `worth`, the one of the highest worth, as in the papers, or `gain`, the
            one that is most informative about the label in addition to those already kept. Few features are
            kept, and two informative ones may be redundant, or use up the share of k that a third requires.
        trees: Number of trees, each fully grown; 1,000 in the paper.
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
    """Keep the features that distinguish most pairs of records with different labels, as far as k allows.

    The sum over pairs is additive over features, so the feature of highest worth among those left does not
    depend on those taken, and one pass over the sorted features is the greedy search. The choice of the
    features follows the label and discloses something about it: no differential privacy is claimed.

    Further parameters: see `AnonymizerOperator`.

    Args:
        target: Name of the class label, a sensitive or insensitive attribute; None for the only sensitive
            one.
        bins: Number of equal-width bins of a numeric attribute whose schema names none, >= 2.
        one_hot: Whether each value or bin is a feature, as in the papers, with all values that are not kept
            in one group; otherwise each attribute is one feature.
        generalize: Whether a feature's coarser forms are tried before it is dropped; the papers do not.
        order: Next feature to try: `worth`, the one of the highest worth, as in the papers, or `gain`, the
            one that is most informative about the label in addition to those already kept. Few features are
            kept, and two informative ones may be redundant, or use up the share of k that a third requires.
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


class PrivBayesOperator(SynthesizerOperator):
    """Choose a Bayesian network by mutual information, and measure its tables with noise: the baseline.

    GreedyBayes by mutual information with e1 = `structure_share` * epsilon, Laplace noise on the tables with
    the rest; counts are clipped and normalised.

    Further parameters: see `SynthesizerOperator`.

    Args:
        structure_share: Part of epsilon that chooses the structure, in (0, 1).
        degree: Most parents of an attribute; None for as many as leave its table theta-useful.
        theta: Least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: Most cells of a table of the network.
    """

    method = "privbayes"

    def __init__(
        self,
        *,
        structure_share: float | str = 0.3,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit


class DPSMBayesOperator(SynthesizerOperator):
    """Choose a Bayesian network on a secret sample of the records, and clean its noisy tables by a threshold.

    SMBayes with e1 = `structure_share` * epsilon, IMLap-Noisy with the rest.

    Further parameters: see `SynthesizerOperator`.

    Args:
        structure_share: Part of epsilon that chooses the structure, in (0, 1).
        degree: Most parents of an attribute; None for as many as leave its table theta-useful.
        theta: Least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: Most cells of a table of the network.
        sampling: Sample of the selection: `one` for the whole selection, as in the paper, or a `fresh` one
            for each pick.
        post_process: Way in which noisy counts become probabilities: `threshold`, the paper's, `clip` or
            `simplex`.
    """

    method = "dpsm_bayes"

    def __init__(
        self,
        *,
        structure_share: float | str = 0.3,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        sampling: str = "one",
        post_process: str = "threshold",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit
        self.sampling = sampling
        self.post_process = post_process


class PrivBayesROperator(SynthesizerOperator):
    """Choose a Bayesian network by the score R, which noise harms less than mutual information.

    GreedyBayes by R with e1 = `structure_share` * epsilon, Laplace noise on the tables with the rest, which
    are projected onto the simplex.

    Further parameters: see `SynthesizerOperator`.

    Args:
        structure_share: Part of epsilon that chooses the structure, in (0, 1).
        degree: Most parents of an attribute; None for as many as leave its table theta-useful.
        theta: Least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: Most cells of a table of the network.
    """

    method = "privbayes_r"

    def __init__(
        self,
        *,
        structure_share: float | str = 0.1,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit


class LatentClassOperator(SynthesizerOperator):
    """Fit a latent class model to a few noisy tables, chosen where it errs most: the recommended synthesizer.

    Views are chosen where the model errs and measured with noise; the claim is epsilon, or (epsilon, delta).

    Further parameters: see `SynthesizerOperator`.

    Args:
        delta: Delta of the claim: 0 for pure epsilon; > 0 and far below 1 over the number of persons, such as
            1e-9, for (epsilon, delta) with Gaussian noise, which is less for records of more than eight
            attributes or so, and more for those of four.
        classes: Number of hidden classes of one fitted model, >= 1; 1 makes the attributes independent. None
            for the one of 8, 16, 32 and 64 that predicts noisy tables best, which needs no epsilon.
        fits: Number of models whose mean is released, >= 1; fewer where they would have more than 256 classes
            together.
        rounds: Number of views (tables of a few attributes) that are measured, >= 1, where the budget is
            enough for any; more where an attribute would be in none. None for as many as are useful, at most
            three for every two attributes.
        width: Most attributes of a view, >= 1.
        theta: Least ratio of a view's mean cell to its noise, > 0: bounds its cells.
        attribute_share: Largest part of epsilon that goes to the attributes of many values, in (0, 1).
        selection_share: Part of the rest that chooses views, in (0, 1).
        rules: Most functional dependencies that are searched for, 0 .. 5.
        replicates: Number of models that are fitted to the noisy tables with noise added once more, which
            give answers intervals; 0 for none, else 2 .. 100. They cost no epsilon. Answers about attributes
            of 100 nominal values or more have none.
    """

    method = "latent_class"

    def __init__(
        self,
        *,
        delta: float | str = 0.0,
        classes: int | str | None = None,
        fits: int | str = 8,
        rounds: int | str | None = None,
        width: int | str = 6,
        theta: float | str = 2.0,
        attribute_share: float | str = 0.4,
        selection_share: float | str = 0.1,
        rules: int | str = 3,
        replicates: int | str = 20,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.delta = delta
        self.classes = classes
        self.fits = fits
        self.rounds = rounds
        self.width = width
        self.theta = theta
        self.attribute_share = attribute_share
        self.selection_share = selection_share
        self.rules = rules
        self.replicates = replicates


class ERRPHOperator(RandomizerOperator):
    """Release each value as itself with probability p_0, else as another value of its domain (ERRPH).

    Extended randomized response with partial hiding. Numbers are released as the midpoints of public bins;
    epsilon is computed from the probabilities.

    Further parameters: see `RandomizerOperator`.

    Args:
        p_0: Probability with which each value is released as itself, in (0, 1); 0.5 where nothing is given.
        epsilon: Privacy loss of a person, instead of p_0: all randomized attributes together, in equal parts;
            > 0.
        probabilities: Probabilities p_j of the labels that replace a value, as attribute to label to p_j, for
            attributes whose p_j are not equal; with p_0 a sum of 1.
    """

    method = "errph"

    def __init__(
        self,
        *,
        p_0: float | str | None = None,
        epsilon: float | str | None = None,
        probabilities: Mapping[str, Mapping[str, float]] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.p_0 = p_0
        self.epsilon = epsilon
        self.probabilities = probabilities


class TRROperator(RandomizerOperator):
    """Release each number as a x + b with random a and b, and other values as ERRPH does (TRR).

    Transforming randomized response. A release with a number makes no claim: see `LocalLaplaceOperator` for
    numbers with one.

    Further parameters: see `RandomizerOperator`.

    Args:
        a_mean: Mean of the random factor a, not 0.
        a_variance: Variance of the random factor a, >= 0.
        b_mean: Mean of the random summand b, in the unit of the attribute.
        b_variance: Variance of the random summand b, >= 0; not both variances 0.
        p_0: Probability with which a value that is no number is released as itself, in (0, 1).
    """

    method = "trr"

    def __init__(
        self,
        *,
        a_mean: float | str = 1.0,
        a_variance: float | str = 1.0,
        b_mean: float | str = 0.0,
        b_variance: float | str = 1.0,
        p_0: float | str = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.a_mean = a_mean
        self.a_variance = a_variance
        self.b_mean = b_mean
        self.b_variance = b_variance
        self.p_0 = p_0


class LocalLaplaceOperator(RandomizerOperator):
    """Add discrete Laplace noise to numbers within their bounds, and answer at random for other values.

    Further parameters: see `RandomizerOperator`.

    Args:
        epsilon: Privacy loss of a person: all randomized attributes together, in equal parts; > 0.
        steps: Number of steps of the grid between the bounds of a number, 1 .. 511; each value is moved to
            the nearest point.
    """

    method = "local_laplace"

    def __init__(
        self,
        *,
        epsilon: float | str = 1.0,
        steps: int | str = 128,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.steps = steps
