import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.hardware.accelerators import accelerators
from stoker.hardware.machines import machine_types
from stoker.hardware.regions import regions, zones
from stoker.hardware.rules import Fault, RoleRequest, Shape, check, zones_for
from stoker.hardware.tiers import ROLES, tiers
from tests.hardware.builders import ask, chief

IOWA = "us-central1"


def brief(shapes):
    return [(s.role, s.count, s.machine.name, s.accelerator_count, s.accelerator) for s in shapes]


def faults_of(*requests, tier="CUSTOM", region=IOWA):
    return [(fault.role, fault.field) for fault in check(tier, requests, region)[1]]


# The documentation's two example jobs.


def test_the_example_with_attached_gpus_is_accepted_and_has_forty():
    requests = [
        ask("master", 1, "n1-highcpu-16", "NVIDIA_TESLA_T4", 4),
        ask("worker", 9, "n1-highcpu-16", "nvidia-tesla-t4", 4),
        ask("ps", 3, "n1-highmem-8"),
    ]
    shapes, faults = check("CUSTOM", requests, IOWA)
    assert faults == ()
    assert brief(shapes) == [
        ("chief", 1, "n1-highcpu-16", 4, "NVIDIA_TESLA_T4"),
        ("worker", 9, "n1-highcpu-16", 4, "NVIDIA_TESLA_T4"),
        ("ps", 3, "n1-highmem-8", 0, ""),
    ]
    assert sum(shape.count * shape.accelerator_count for shape in shapes) == 40
    assert zones_for(shapes, IOWA) == ["us-central1-a", "us-central1-b", "us-central1-f"]


def test_its_legacy_twin_is_accepted_and_has_forty_too():
    requests = [chief("complex_model_m_gpu"), ask("worker", 9, "complex_model_m_gpu"), ask("ps", 3, "large_model")]
    shapes, faults = check("CUSTOM", requests, IOWA)
    assert faults == ()
    assert sum(shape.count * shape.accelerator_count for shape in shapes) == 40
    assert {shape.accelerator for shape in shapes} == {"NVIDIA_TESLA_K80", ""}


def test_the_example_with_three_types_of_gpu_is_refused_in_iowa_and_each_type_alone_is_not():
    t4, k80, p100 = (
        chief("n1-standard-4", "T4", 1),
        ask("ps", 2, "n1-standard-4", "K80", 1),
        ask("worker", 3, "n1-standard-4", "P100", 1),
    )
    shapes, faults = check("CUSTOM", [t4, k80, p100], IOWA)
    assert [(fault.role, fault.field) for fault in faults] == [("", "zone")]
    assert zones_for(shapes, IOWA) == []
    for request in (t4, k80, p100):
        alone = chief(request.machine_type, request.accelerator, request.accelerator_count)
        assert check("CUSTOM", [alone], IOWA)[1] == ()
    assert check("CUSTOM", [t4, k80, p100], "us-east1")[1] == ()


# Tiers.


def test_a_tier_brings_its_machines():
    shapes, faults = check("PREMIUM_1", [chief()], IOWA)
    assert faults == ()
    assert brief(shapes) == [
        ("chief", 1, "complex_model_m", 0, ""),
        ("worker", 19, "complex_model_m", 0, ""),
        ("ps", 11, "large_model", 0, ""),
    ]


def test_basic_gpu_is_one_machine_with_one_k80_and_needs_a_region_with_k80():
    assert brief(check("BASIC_GPU", [], IOWA)[0]) == [("chief", 1, "standard_gpu", 1, "NVIDIA_TESLA_K80")]
    assert faults_of(tier="BASIC_GPU", region="us-west2") == [("", "region")]


def test_no_tier_is_basic():
    assert brief(check("", [], IOWA)[0]) == [("chief", 1, "standard", 0, "")]


@pytest.mark.parametrize("tier", [tier for tier in tiers() if tier != "CUSTOM"])
def test_a_ready_made_tier_leaves_nothing_to_choose(tier):
    requests = [
        chief("n1-standard-4", "T4", 1),
        ask("worker", 2),
        ask("ps", 0, "n1-standard-4"),
        ask("evaluator", 1, "standard"),
    ]
    assert faults_of(*requests, tier=tier) == [
        ("chief", "machine_type"),
        ("chief", "accelerator_type"),
        ("worker", "replica_count"),
        ("evaluator", "replica_count"),
    ]
    assert "CUSTOM" in check(tier, requests, IOWA)[1][0].fix


def test_an_unknown_tier_is_reported_beside_what_else_is_wrong():
    _, faults = check("STANDARD_2", [chief("n1-standrd-4")], "us-centrall")
    assert [(fault.field, fault.fix) for fault in faults] == [
        ("scale_tier", "use STANDARD_1"),
        ("machine_type", "use n1-standard-4"),
        ("region", "use us-central1"),
    ]


# Roles and their counts.


def test_custom_needs_a_chief_with_a_machine_type():
    assert faults_of() == faults_of(chief()) == [("chief", "machine_type")]
    assert faults_of(ask("worker", 1, "n1-standard-4")) == [("chief", "machine_type")]


def test_a_count_needs_a_machine_type_and_a_machine_type_without_a_count_is_ignored():
    assert faults_of(chief("n1-standard-4"), ask("worker", 2)) == [("worker", "machine_type")]
    shapes, faults = check("CUSTOM", [chief("n1-standard-4"), ask("worker", 0, "no-such", "no-such", -1)], IOWA)
    assert faults == () and brief(shapes) == [("chief", 1, "n1-standard-4", 0, "")]


def test_counts_that_cannot_be():
    machine = "n1-standard-4"
    assert faults_of(ask("chief", 0, machine)) == [("chief", "replica_count")]
    assert faults_of(ask("chief", 2, machine)) == [("chief", "replica_count")]
    assert faults_of(chief(machine), ask("worker", -1, machine)) == [("worker", "replica_count")]
    assert faults_of(chief(machine), ask("ps", 1, machine), ask("ps", 1, machine)) == [("ps", "replica_count")]
    assert faults_of(chief(machine), ask("master", 1, machine)) == [("chief", "replica_count")]
    assert faults_of(chief(machine), ask("boss", 1, machine)) == [("boss", "replica_count")]


def test_every_fault_of_every_role_at_once():
    assert faults_of(
        chief("n1-highcpu-16", "T4", 3),
        ask("worker", 4, "n1-standard-32", "V100", 2),
        ask("ps", -3, "n1-standard-4"),
        ask("evaluator", 1, "e2-medium", "T5", 1),
        region="mars-north1",
    ) == [
        ("ps", "replica_count"),
        ("chief", "accelerator_count"),
        ("worker", "accelerator_count"),
        ("evaluator", "machine_type"),
        ("evaluator", "accelerator_type"),
        ("", "region"),
    ]


def test_what_concerns_the_whole_job_is_said_beside_the_faults_of_its_roles():
    assert faults_of(
        chief("n1-standard-32", "K80", 3),
        ask("worker", 1, "n1-standard-4", "P4", 3),
        ask("evaluator", 1, "standard_gpu", "T4", 1),
        region="us-east4",
    ) == [
        ("chief", "accelerator_count"),
        ("worker", "accelerator_count"),
        ("evaluator", "accelerator_type"),
        ("evaluator", "machine_type"),
        ("", "region"),
    ]


# Machines beside each other.


def test_workers_with_and_without_gpus_mix_freely():
    requests = [
        chief("n1-standard-4"),
        ask("worker", 2, "n1-highcpu-16", "V100", 2),
        ask("ps", 2, "n1-highmem-8"),
        ask("evaluator", 1, "n1-standard-8", "T4", 1),
    ]
    assert check("CUSTOM", requests, IOWA)[1] == ()


def test_legacy_and_compute_engine_types_do_not_mix_and_the_twin_is_named():
    requests = [chief("n1-standard-4"), ask("worker", 2, "standard_gpu"), ask("ps", 1, "complex_model_s")]
    _, faults = check("CUSTOM", requests, IOWA)
    assert [(fault.role, fault.field, fault.found, fault.fix) for fault in faults] == [
        ("worker", "machine_type", "standard_gpu", "use n1-standard-8 with 1 x NVIDIA_TESLA_K80 for the worker"),
        ("ps", "machine_type", "complex_model_s", "use n1-highcpu-16 for the ps"),
    ]


def test_with_a_legacy_chief_the_legacy_twins_are_named_if_all_have_one_and_else_another_chief():
    gpus, large = ask("worker", 2, "n1-standard-16", "K80", 4), ask("ps", 1, "n1-highmem-16")
    (fault,) = check("CUSTOM", [chief("standard"), gpus], IOWA)[1]
    assert (fault.role, fault.fix) == ("worker", "use complex_model_m_gpu for the worker")
    _, faults = check("CUSTOM", [chief("standard"), gpus, large], IOWA)
    assert [fault.fix for fault in faults] == ["use n1-standard-4 for the chief"] * 2


@pytest.mark.parametrize("legacy", [m.name for m in machine_types().values() if m.legacy and m.name != "cloud_tpu"])
def test_every_legacy_type_beside_a_compute_engine_chief_gets_a_twin_that_the_rules_accept(legacy):
    (fault,) = check("CUSTOM", [chief("n1-standard-4"), ask("worker", 1, legacy)], IOWA)[1]
    machine, _, rest = fault.fix.removeprefix("use ").removesuffix(" for the worker").partition(" with ")
    count, _, accelerator = rest.partition(" x ")
    assert check("CUSTOM", [chief(machine, accelerator, int(count or 0))], IOWA)[1] == ()
    assert accelerator == machine_types()[legacy].accelerator


def test_a_tpu_board_goes_with_both_kinds():
    for machine in ("standard", "n1-highcpu-16"):
        shapes, faults = check("CUSTOM", [chief(machine), ask("worker", 1, "cloud_tpu")], IOWA)
        assert faults == () and brief(shapes)[1] == ("worker", 1, "cloud_tpu", 8, "TPU_V2")


# The place.


def test_a_job_without_accelerators_fits_every_zone():
    shapes, faults = check("STANDARD_1", [], "europe-north1")
    assert faults == () and zones_for(shapes, "europe-north1") == list(zones("europe-north1"))


def test_built_in_accelerators_need_a_place_too():
    assert faults_of(chief("a3-ultragpu-8g"), region="europe-north1") == [("", "region")]
    assert faults_of(chief("a3-ultragpu-8g"), region=IOWA) == []


# Anything at all.

SOME_COUNTS = st.one_of(st.integers(-2, 17), st.integers())
SOME_ROLES = st.one_of(st.sampled_from([*ROLES, "master"]), st.text())
SOME_MACHINES = st.one_of(st.sampled_from(list(machine_types())), st.from_regex(r"[a-z]\d-[a-z]+-\d+"), st.text())
SOME_ACCELERATORS = st.one_of(st.just(""), st.sampled_from(list(accelerators())), st.text())
SOME_REQUESTS = st.builds(
    RoleRequest,
    role=SOME_ROLES,
    count=SOME_COUNTS,
    machine_type=SOME_MACHINES,
    accelerator=SOME_ACCELERATORS,
    accelerator_count=SOME_COUNTS,
)


@given(
    tier=st.one_of(st.sampled_from(tiers()), st.text()),
    requests=st.lists(SOME_REQUESTS, max_size=5),
    region=st.one_of(st.sampled_from(list(regions())), st.text()),
)
def test_whatever_is_asked_the_answer_is_shapes_and_faults_that_say_what_to_do(tier, requests, region):
    shapes, faults = check(tier, requests, region)
    assert all(isinstance(shape, Shape) and shape.count > 0 and shape.machine.offered for shape in shapes)
    assert all(isinstance(fault, Fault) and fault.why and fault.fix for fault in faults)
    if not faults:
        assert shapes[0].role == "chief" and zones_for(shapes, region)
