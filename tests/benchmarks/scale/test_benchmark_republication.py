"""The benchmark of the judge of releases over time, on a few hundred persons."""

from dataclasses import replace

from benchmarks.scale.years import republication


def test_releases_that_keep_the_model_pass_and_one_more_person_is_found() -> None:
    figures = republication.measure(400, 3)
    assert figures.kept == 3
    assert figures.found > 0
    # The largest memory of the process is that of whatever ran in it before.
    quick = replace(figures, cpu=1.0, memory=0.5)
    text = "\n".join(republication.describe({400: quick}, 3).blocks)
    assert text.count("**Holds**") == 4
    slow = replace(quick, cpu=2_000.0, kept=2, found=0)
    text = "\n".join(republication.describe({400: slow}, 3).blocks)
    assert text.count("**Does not hold**") == 3
