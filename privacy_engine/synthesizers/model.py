"""What a synthesizer measured: differentially private, so it may be stored, shown and sampled freely."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.noisy_number import COUNTED, NoisyNumber
from privacy_engine.synthesizers.quantile_bins import QuantileBins
from privacy_engine.synthesizers.replicate_models import ReplicateModels
from privacy_engine.tables.domains import Storage


@dataclass(frozen=True, kw_only=True)
class SynthesizerModel:
    """The result of ``measure``.

    Attributes:
        method: Registry key of the synthesizer.
        parameters: Those that shaped the measurement, plain values.
        network: Noisy distribution of the records.
        rows: Number of records of the source, which is public; for a source with many rows per person, the
            default number of records of a release, which is public as well.
        spends: Every mechanism that touched the records.
        loss: Loss that they claim together.
        storages: Declared type of each column.
        persons: Number of persons in the source, if a person may have several rows; None if each row counts
            as a person.
        persons_public: Whether `persons` is their public number; else it follows from a noisy one.
        replicates: Replicates of the network, for intervals of answers; None for a method without them, and
            for a model that was stored before they existed.
        follow: Noisy figures from which later releases of a schedule go on, see
            ``privacy_engine.synthesizers.repeated.following``; None where none do.
        bins: Private quantile bins by attribute; None where there are none.
    """

    method: str
    parameters: Mapping[str, Any]
    network: BayesianNetwork
    rows: int
    spends: tuple[Spend, ...]
    loss: PrivacyLoss
    storages: Mapping[str, Storage]
    persons: int | None = None
    persons_public: bool = True
    replicates: ReplicateModels | None = None
    follow: Mapping[str, Any] | None = None
    bins: Mapping[str, QuantileBins] | None = None

    @property
    def counts_persons(self) -> bool:
        """Whether a person may have several rows, so that persons were counted instead of rows."""
        return self.persons is not None

    @property
    def noisy_number(self) -> NoisyNumber | None:
        """The noise in `rows`; None where `rows` is the public number of records, or of persons."""
        counted = next((spend for spend in self.spends if spend.target in COUNTED), None)
        if counted is None or self.persons is None:
            return None
        public = {}
        if self.persons_public:
            public = {"least": self.persons, "most": self.persons * int(self.parameters["max_rows"])}
        return NoisyNumber(released=self.rows, mechanism=counted.mechanism, scale=counted.scale, **public)

    def structure(self) -> dict[str, list[str]]:
        """The parents of each attribute, in the order of the network."""
        return {node.attribute: list(node.parents) for node in self.network.nodes}

    def to_json(self) -> str:
        """JSON text, the same for equal models; ``from_json`` reads back every probability bit for bit."""
        fields = {
            "method": self.method,
            "parameters": dict(self.parameters),
            "rows": self.rows,
            "loss": self.loss.to_dict(),
            "spends": [spend.to_dict() for spend in self.spends],
            "storages": {name: storage.value for name, storage in self.storages.items()},
            "network": self.network.to_dict(),
        }
        if self.persons is not None:
            fields["persons"] = self.persons
        if not self.persons_public:
            fields["persons_public"] = False
        if self.replicates is not None:
            fields["replicates"] = self.replicates.to_dict()
        if self.follow is not None:
            fields["follow"] = dict(self.follow)
        if self.bins is not None:
            fields["bins"] = {name: own.to_dict() for name, own in self.bins.items()}
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "SynthesizerModel":
        """Read what ``to_json`` writes.

        Raises:
            ValueError: If the text is no such model.
        """
        try:
            fields = json.loads(text)
            return cls(
                method=fields["method"],
                parameters=fields["parameters"],
                network=BayesianNetwork.from_dict(fields["network"]),
                rows=fields["rows"],
                spends=tuple(map(Spend.from_dict, fields["spends"])),
                loss=PrivacyLoss(**fields["loss"]),
                storages={name: Storage(value) for name, value in fields["storages"].items()},
                persons=fields.get("persons"),
                persons_public=fields.get("persons_public", True),
                replicates=ReplicateModels.from_dict(fields["replicates"])
                if "replicates" in fields
                else None,
                follow=fields.get("follow"),
                bins={name: QuantileBins.from_dict(own) for name, own in fields["bins"].items()}
                if "bins" in fields
                else None,
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"this text is no synthesizer's model: {type(error).__name__}") from None
