import pytest

from stoker.hardware.tiers import find_role, find_tier, tier_groups, tiers


@pytest.mark.parametrize(
    ("tier", "groups"),
    [
        ("BASIC", (("chief", 1, "standard"),)),
        ("STANDARD_1", (("chief", 1, "complex_model_s"), ("worker", 4, "complex_model_s"), ("ps", 3, "standard"))),
        ("PREMIUM_1", (("chief", 1, "complex_model_m"), ("worker", 19, "complex_model_m"), ("ps", 11, "large_model"))),
        ("BASIC_GPU", (("chief", 1, "standard_gpu"),)),
        ("BASIC_TPU", (("chief", 1, "standard"), ("worker", 1, "cloud_tpu"))),
        ("CUSTOM", ()),
    ],
)
def test_what_each_tier_runs_on(tier, groups):
    assert tier_groups(tier) == groups


def test_there_are_six_tiers():
    assert tiers() == ("BASIC", "STANDARD_1", "PREMIUM_1", "BASIC_GPU", "BASIC_TPU", "CUSTOM")


def test_a_tier_by_its_name_or_its_flag_and_basic_when_none_is_named():
    assert [find_tier(text) for text in ("CUSTOM", "basic-gpu", "", "standard-2")] == [
        "CUSTOM",
        "BASIC_GPU",
        "BASIC",
        None,
    ]
    with pytest.raises(KeyError):
        tier_groups("STANDARD_2")


def test_the_chief_is_also_called_master():
    roles = [find_role(text) for text in ("master", "chief", "worker", "ps", "evaluator", "Chief", "")]
    assert roles == ["chief", "chief", "worker", "ps", "evaluator", "", ""]
