import pytest

from stoker.hardware.limits import sold_on
from stoker.hardware.machines import machine_types
from stoker.hardware.role_rules import resolve
from tests.hardware.builders import ask, chief, counts, table

CELLS = table("accelerator_counts.csv")


def the_fault(request):
    resolved = resolve(request)
    (fault,) = resolved.faults
    assert resolved.shape is None and fault.role == request.role
    return fault


@pytest.mark.parametrize("row", CELLS, ids=lambda row: f"{row['machine_type']}-{row['accelerator_type']}")
def test_every_cell_of_the_table_with_every_count(row):
    machine, accelerator, valid = row["machine_type"], row["accelerator_type"], counts(row["valid_counts"])
    for count in range(1, 17):
        resolved = resolve(ask("worker", 1, machine, accelerator, count))
        shape, faults = resolved.shape, resolved.faults
        assert (shape is not None) == (count in valid) == (faults == ()), count
        if shape is not None:
            assert (shape.accelerator, shape.accelerator_count) == (accelerator, count)
        else:
            expected = "accelerator_count" if valid else "accelerator_type"
            assert [fault.field for fault in faults] == [expected]
            assert all(str(n) in faults[0].fix for n in valid[:1])


@pytest.mark.parametrize("machine", [m for m in machine_types().values() if m.offered], ids=lambda m: m.name)
def test_every_machine_with_every_accelerator_of_the_table_takes_only_what_the_table_has(machine):
    valid = {
        (row["accelerator_type"], n)
        for row in CELLS
        if row["machine_type"] == machine.name
        for n in counts(row["valid_counts"])
    }
    for accelerator in {row["accelerator_type"] for row in CELLS}:
        for count in (1, 2, 3, 4, 8, 16):
            shape = resolve(ask("worker", 1, machine.name, accelerator, count)).shape
            assert (shape is not None) == ((accelerator, count) in valid), (accelerator, count)


def test_the_shape_is_the_machine_with_its_accelerators_under_their_canonical_name():
    shape = resolve(ask("worker", 9, "n1-highcpu-16", "nvidia-tesla-t4", 4)).shape
    assert shape is not None
    assert (shape.role, shape.count, shape.machine.name) == ("worker", 9, "n1-highcpu-16")
    assert (shape.accelerator, shape.accelerator_count) == ("NVIDIA_TESLA_T4", 4)
    assert (shape.vcpus, shape.memory_gb) == (16, 14.4)


@pytest.mark.parametrize("machine", [m for m in machine_types().values() if m.offered], ids=lambda m: m.name)
def test_every_offered_machine_runs_without_naming_an_accelerator_and_has_what_is_built_in(machine):
    shape = resolve(ask("worker", 1, machine.name)).shape
    assert shape is not None
    assert (shape.accelerator, shape.accelerator_count) == (machine.accelerator, machine.accelerator_count)


@pytest.mark.parametrize("machine", [m for m in machine_types().values() if not m.offered], ids=lambda m: m.name)
def test_a_machine_that_exists_but_is_not_offered_is_refused_with_one_that_is(machine):
    fault = the_fault(chief(machine.name))
    assert (fault.field, fault.found, fault.why) == (
        "machine_type",
        machine.name,
        f"{machine.name} is not offered for training",
    )
    assert machine_types()[fault.fix.removeprefix("use ")].offered


@pytest.mark.parametrize(
    ("name", "why", "fix"),
    [
        ("e2-standard-2", "e2-standard-2 is not offered for training", "use n1-standard-4"),
        ("n1-standrd-8", "there is no such machine type", "use n1-standard-8"),
        ("", "the chief needs one", "name one, such as n1-standard-4"),
    ],
)
def test_unknown_machine_types(name, why, fix):
    fault = the_fault(chief(name))
    assert (fault.field, fault.why, fault.fix) == ("machine_type", why, fix)


def test_a_wrong_machine_is_not_also_blamed_for_its_accelerators():
    assert the_fault(chief("n1-standard-1", "T4", 1)).field == "machine_type"
    assert the_fault(ask("ps", 1, "cloud_tpu", "T4", 1)).field == "machine_type"


def test_a_name_like_no_machine_type_gets_examples():
    assert the_fault(chief("???")).fix.startswith("name one on offer: n1-standard-4, a2-highgpu-1g,")


@pytest.mark.parametrize(
    ("accelerator", "count", "field", "why", "fix"),
    [
        ("nvidia-tesla-t44", 1, "accelerator_type", "there is no such accelerator", "use NVIDIA_TESLA_T4"),
        ("RTX 3090", 1, "accelerator_type", "no machine type carries NVIDIA_RTX_3090", "use NVIDIA_L4 or"),
        ("", 2, "accelerator_type", "a number of accelerators needs their type", "name the type: NVIDIA_TESLA_K80,"),
        ("T4", 0, "accelerator_count", "an accelerator needs a count of at least 1", "use 1, 2 or 4, or name no"),
        ("T4", -1, "accelerator_count", "an accelerator needs a count of at least 1", "use 1, 2 or 4, or name no"),
    ],
)
def test_accelerators_that_cannot_be(accelerator, count, field, why, fix):
    fault = the_fault(chief("n1-standard-4", accelerator, count))
    assert (fault.field, fault.why) == (field, why)
    assert fault.fix.startswith(fix)


def test_machine_and_accelerator_are_both_reported():
    faults = resolve(chief("n1-standrd-8", "no-such", 1)).faults
    assert [(fault.field, fault.found) for fault in faults] == [
        ("machine_type", "n1-standrd-8"),
        ("accelerator_type", "no-such"),
    ]


@pytest.mark.parametrize("machine", [m for m in machine_types().values() if m.legacy], ids=lambda m: m.name)
def test_no_gpu_is_attached_to_a_legacy_machine_type_not_even_its_own(machine):
    gpu = machine.accelerator if "TESLA" in machine.accelerator else "NVIDIA_TESLA_T4"
    fault = the_fault(ask("worker", 1, machine.name, gpu, max(1, int(machine.accelerator_count))))
    assert fault.field == "accelerator_type"
    assert any(host in fault.fix for host in sold_on(gpu))


def test_a_tpu_board_is_for_workers_and_takes_eight_cores_of_either_generation():
    for role in ("chief", "ps", "evaluator"):
        fault = the_fault(ask(role, 1, "cloud_tpu"))
        assert (fault.field, fault.fix) == ("machine_type", "use n1-standard-4 here")
    assert the_fault(ask("worker", 1, "cloud_tpu", "TPU_V3", 4)).why == "TPU_V3 comes in 8 per machine"
    assert the_fault(chief("n1-standard-4", "TPU_V2", 8)).why == "TPU_V2 is sold only on cloud_tpu"
    assert the_fault(chief("n1-standard-4", "TPU_V2_POD", 32)).why == "no machine type carries TPU_V2_POD"
