"""What the methods share that choose a network's structure first and measure its tables then."""

import math
from dataclasses import dataclass

from privacy_engine.synthesizers.domains import CodedTable
from privacy_engine.synthesizers.noisy_tables import split_over_tables
from privacy_engine.synthesizers.structure import FamilyLimit, check_single_tables, fixed_limit, theta_limit
from privacy_engine.synthesizers.synthesizer import Synthesizer, check_number, check_whole

LARGEST_TABLE = 2**26


@dataclass(frozen=True, kw_only=True)
class NetworkSynthesizer(Synthesizer):
    """A synthesizer that spends one part of epsilon on the structure of a network, the rest on its tables.

    Attributes:
        structure_share: part of epsilon that chooses the structure, in (0, 1).
        degree: most parents of an attribute; None = as many as leave its table theta-useful.
        theta: least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: most cells of a table.
    """

    structure_share: float = 0.3
    degree: int | None = None
    theta: float = 4.0
    cell_limit: int = 2**18

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("structure_share", self.structure_share)
        if not 0 < self.structure_share < 1:
            raise ValueError(f"structure_share must be in (0, 1), got {self.structure_share}")
        check_number("theta", self.theta)
        if not 0 < self.theta < math.inf:
            raise ValueError(f"theta must be > 0 and finite, got {self.theta}")
        if self.degree is not None:
            check_whole("degree", self.degree, 0)
        check_whole("cell_limit", self.cell_limit, 1, LARGEST_TABLE)

    def family_limit(self, coded: CodedTable, epsilon: float, *, shared: bool) -> FamilyLimit:
        """How large families may be: by the degree, else by theta. From public figures only.

        Args:
            coded: for names, sizes and the number of records.
            epsilon: for all tables together.
            shared: as in ``theta_limit``.

        Raises:
            InfeasibleError: if the table is too small, or a domain too large.
            ValueError: if epsilon is too small for any noise.
        """
        split_over_tables(epsilon, len(coded.sizes))  # refuses an epsilon too small, before any noise
        check_single_tables(coded.names, coded.sizes, self.cell_limit)
        if self.degree is not None:
            return fixed_limit(self.degree, coded.names, coded.sizes, len(coded), self.cell_limit)
        return theta_limit(
            coded.sizes, len(coded), epsilon, theta=self.theta, cell_limit=self.cell_limit, shared=shared
        )
