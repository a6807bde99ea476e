"""The data dictionary of a release: the meaning of each column, the guarantees, and how to cite it.

It contains no record. Its content comes from the manifest, from schemas, whose domains are public, and from
the released table. It is stored as JSON for programs and as one HTML page for people.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from privacy_engine.tables.columns import number_text
from privacy_release.manifest.manifest import Claims, Manifest
from privacy_release.reports.columns import FORM_WORDS, Form
from privacy_release.reports.release import page_template
from privacy_release.reports.text import claim, figure, neighbours_in_words, promise_in_words

DICTIONARY = "dictionary"  # name of the proof in the note of a commit; the kind of file follows it
VERSION = 1

_ROLES: Mapping[str, str] = {
    "quasi_identifier": "Quasi-identifier: others may know it about a person",
    "sensitive": "Sensitive: must not be learned about a person",
    "insensitive": "Released unchanged and not protected",
}
_HIDDEN = "not shown: the guarantee hides every count of the source"
_UNSEEN = "not shown: the form of the column does not reveal it"


def dictionary(
    manifest: Manifest,
    columns: Mapping[str, Mapping[str, Any]],
    *,
    table: str,
    release: str,
    types: Mapping[str, str],
) -> dict[str, Any]:
    """Return the data dictionary as plain JSON.

    Args:
        manifest: Manifest of the release, as published.
        columns: Columns from `privacy_release.reports.columns.with_origins`.
        table: Name of the release table.
        release: ID of the release.
        types: Delta types of the columns in the table, in its order.
    """
    made_by = manifest.method
    if manifest.software is not None:
        made_by = f"{made_by} with {manifest.software.name} {manifest.software.version}"
    entry: dict[str, Any] = {
        "version": VERSION,
        "table": table,
        "release": release,
        "records": manifest.rows,
        "method": manifest.method,
        "guarantee": {"short": guarantee_in_short(manifest), "sentences": guarantee_sentences(manifest)},
        "columns": [
            _column(name, kind, columns.get(name, {}), private=manifest.private)
            for name, kind in types.items()
        ],
        "sha256": manifest.sha256,
        "cite": (
            f"{table}, release {release}. Made by {made_by}. "
            f"sha256 of the verified records: {manifest.sha256}."
        ),
    }
    person = manifest.person
    if person is not None and person.tables:
        entry["tables"] = {name: [person.column, *own.columns] for name, own in person.tables.items()}
    if not manifest.private:
        entry["suppressed"] = manifest.suppressed
    return entry


def guarantee_in_short(claims: Claims) -> str:
    """Return the guarantees of a release in one line.

    >>> guarantee_in_short(Claims.from_dict({"guarantees": [{"model": "k_anonymity", "k": 5}]}))
    'k-anonymity (k=5)'
    >>> guarantee_in_short(Claims.from_dict({"guarantees": []}))
    'no guarantee is claimed'
    """
    parts = [f"{claim(model).name} ({_parameters(model)})" for model in claims.guarantees]
    if claims.loss is not None and not claims.loss.claimed.must_be_booked:
        parts.append("invented records, which depend on no record of a person (epsilon=0)")
    elif loss := claims.loss:
        parts.append(f"differential privacy (epsilon={figure(loss.epsilon)}, delta={figure(loss.delta)})")
    elif claims.randomization is not None:
        parts.append("random answers, without a bound for whole records")
    return ", ".join(parts) or "no guarantee is claimed"


def guarantee_sentences(manifest: Manifest) -> list[str]:
    """Return the guarantees of a release in sentences: the rule, what it protects from and what not."""
    sentences = []
    for model in manifest.guarantees:
        promise = claim(model, of_persons=manifest.person is not None)
        sentences.append(f"{promise.name}. {promise.rule} {promise.protects} Not protected: {promise.leaves}")
    if manifest.loss is not None and not manifest.loss.claimed.must_be_booked:
        sentences.append(
            "The records are invented: they follow from the schema, the parameters and a seed, and no record "
            "of a person was read (epsilon 0). They show which columns and values the release has, and "
            "nothing that is true of people."
        )
    elif loss := manifest.loss:
        neighbours = neighbours_in_words(loss.neighbours, participants=manifest.noisy_participants)
        sentences.append(
            f"Differential privacy with epsilon {figure(loss.epsilon)} and delta {figure(loss.delta)}: what "
            f"is released is nearly as likely {neighbours}. Not protected: facts about many people are "
            "learned, and releases of the same people add up their epsilons."
        )
        if manifest.over_time is not None:
            sentences.append(promise_in_words(manifest.over_time.stored))
    elif manifest.randomization is not None:
        sentences.append("Values were randomized one by one; no bound holds for a whole record.")
    return sentences or ["The method claims nothing about this table."]


def column_comments(described: Mapping[str, Any]) -> dict[str, str]:
    """Return a comment on each column of the table. It contains only what is the same in all releases."""
    return {column["name"]: _comment(column) for column in described["columns"]}


def table_description(described: Mapping[str, Any]) -> str:
    """Return a description of the table that all its releases share."""
    return (
        f"Released records about people, made by {described['method']}. Current guarantee: "
        f"{described['guarantee']['short']}. The column comments explain each column; the data dictionary "
        "stored with the release has all details."
    )


def dictionary_html(described: Mapping[str, Any]) -> str:
    """Return the data dictionary as one page that loads nothing."""
    columns = [
        {"name": column["name"], "lines": [(label, text) for label, text in _lines(column) if text]}
        for column in described["columns"]
    ]
    return page_template("dictionary.html.j2").render(dictionary=described, columns=columns)


def _column(name: str, kind: str, known: Mapping[str, Any], *, private: bool) -> dict[str, Any]:
    form = Form(known.get("form", Form.VALUE))
    entry: dict[str, Any] = {
        "name": name,
        "type": kind,
        "role": known.get("role", "insensitive"),
        "kind": known.get("kind", "categorical"),
        "source": known.get("source"),
        "form": form.value,
        "meaning_of_form": FORM_WORDS[form],
        "null": known.get("nulls", ""),
    }
    entry |= {key: known[key] for key in ("domain", "codes", "meaning", "precision") if key in known}
    if private:
        entry["changed_hidden"] = _HIDDEN
    elif "changed" in known:
        entry["changed"] = known["changed"]
    elif form is Form.MIDPOINT:
        entry["changed_hidden"] = _UNSEEN
    return entry


def _comment(column: Mapping[str, Any]) -> str:
    origin = column["source"]
    of = f" Of {origin}." if origin not in (None, column["name"]) else ""
    null = f" {column['null'].capitalize()}." if column["null"] else ""
    return f"{_ROLES[column['role']]}. {column['meaning_of_form']}{of}{null}"


def _lines(column: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return label and text of each line about a column."""
    changed = column.get("changed_hidden", "")
    if "changed" in column:
        changed = f"{100 * column['changed']:.0f} % of its cells"
    return (
        ("Role", _ROLES[column["role"]]),
        ("Type", f"{column['type']} ({column['kind']})"),
        ("Made from", column["source"] or ""),
        ("How it is written", column["meaning_of_form"]),
        ("Domain", _domain_words(column.get("domain", {}))),
        ("Codes", column.get("codes", "")),
        ("Precision", column.get("precision", "")),
        ("Null", column["null"]),
        ("Changed", changed),
    )


def _domain_words(domain: Mapping[str, Any]) -> str:
    parts = []
    if "bounds" in domain:
        low, high = (end if isinstance(end, str) else number_text(end) for end in domain["bounds"])
        parts.append(f"{low} to {high}, both inside")
    if "categories" in domain:
        parts.append(_labels(domain["categories"]))
    parts += [f"level {level}: {_labels(labels)}" for level, labels in enumerate(domain.get("levels", ()))]
    if "calendar" in domain:
        parts.append(f"periods of the calendar: {', '.join(domain['calendar'])}")
    return "; ".join(parts)


def _labels(listed: Mapping[str, Any]) -> str:
    return ", ".join(listed["labels"]) if "labels" in listed else f"{listed['count']:,} labels"


def _parameters(model: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in model.items() if name not in ("model", "attribute"))
