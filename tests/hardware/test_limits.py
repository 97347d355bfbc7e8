import pytest

from stoker.hardware.limits import (
    COMPUTE_ENGINE,
    Limit,
    counts_sold,
    derived_counts,
    limits,
    sold_accelerators,
    sold_on,
    sold_with,
    valid_counts,
)
from tests.hardware.builders import counts, table

# The table as the documentation prints it, typed here by hand; the A100 column is empty for all of these.
PRINTED_COLUMNS = ("K80", "P4", "P100", "T4", "V100")
PRINTED = {
    "n1-standard-4": ("1, 2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "1, 2, 4, 8"),
    "n1-standard-8": ("1, 2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "1, 2, 4, 8"),
    "n1-standard-16": ("2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "2, 4, 8"),
    "n1-standard-32": ("4, 8", "2, 4", "2, 4", "2, 4", "4, 8"),
    "n1-highmem-2": ("1, 2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "1, 2, 4, 8"),
    "n1-highmem-4": ("1, 2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "1, 2, 4, 8"),
    "n1-highmem-8": ("1, 2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "1, 2, 4, 8"),
    "n1-highmem-16": ("2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "2, 4, 8"),
    "n1-highmem-32": ("4, 8", "2, 4", "2, 4", "2, 4", "4, 8"),
    "n1-highcpu-16": ("2, 4, 8", "1, 2, 4", "1, 2, 4", "1, 2, 4", "2, 4, 8"),
    "n1-highcpu-32": ("4, 8", "2, 4", "2, 4", "2, 4", "4, 8"),
}


@pytest.mark.parametrize("machine", PRINTED)
def test_the_printed_table(machine):
    for chip, printed in zip(PRINTED_COLUMNS, PRINTED[machine], strict=True):
        assert valid_counts(machine, f"NVIDIA_TESLA_{chip}") == counts(printed), chip
        assert derived_counts(machine, f"NVIDIA_TESLA_{chip}") == counts(printed), chip
    assert valid_counts(machine, "NVIDIA_TESLA_A100") == ()


@pytest.mark.parametrize(
    "row", table("rule_check.csv"), ids=lambda row: f"{row['machine_type']}-{row['accelerator_type']}"
)
def test_the_rule_derives_every_cell(row):
    cell = row["machine_type"], row["accelerator_type"]
    assert valid_counts(*cell) == counts(row["table_counts"])
    assert derived_counts(*cell) == counts(row["derived_aip_78gb"])
    assert derived_counts(*cell, exceptions=False) == counts(row["derived_without_exceptions"])
    assert derived_counts(*cell, scope=COMPUTE_ENGINE) == counts(row["derived_gce_today"])


def test_table_and_rule_agree_wherever_there_is_a_rule():
    ruled = [row for row in table("accelerator_counts.csv") if limits(row["accelerator_type"])]
    assert len(ruled) == 17 * 5
    for row in ruled:
        cell = row["machine_type"], row["accelerator_type"]
        assert derived_counts(*cell) == valid_counts(*cell), cell


def test_the_two_exceptions_matter_for_exactly_four_cells():
    cells = [(row["machine_type"], row["accelerator_type"]) for row in table("accelerator_counts.csv")]
    changed = {cell for cell in cells if derived_counts(*cell) != derived_counts(*cell, exceptions=False)}
    assert changed == {
        (machine, gpu)
        for machine in ("n1-standard-64", "n1-highmem-64")
        for gpu in ("NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100")
    }


def test_with_the_76_gb_that_the_page_prints_per_v100_one_cell_of_the_table_would_be_lost():
    assert (
        Limit(accelerator="NVIDIA_TESLA_V100", count=1, max_vcpus=12, max_memory_gb=76).times(8).serves(96, 624)
        is False
    )
    assert limits("NVIDIA_TESLA_V100")[0].times(8).serves(96, 624) is True
    assert valid_counts("n1-highmem-96", "NVIDIA_TESLA_V100") == (8,)


def test_the_exceptions_as_the_page_states_them():
    k80, p100 = limits("NVIDIA_TESLA_K80")[-1], limits("NVIDIA_TESLA_P100")[-1]
    assert (k80.count, k80.max_memory_gb) == (8, 208)
    assert (p100.count, p100.max_vcpus, p100.max_memory_gb) == (4, 64, 208)


def test_a_machine_with_built_in_accelerators_takes_exactly_those():
    for row in table("machine_types.csv"):
        if row["bundled_accelerator"] and "yes" in (row["aip_training"], row["vertex_training"]):
            (accelerator,) = sold_with(row["machine_type"])
            assert valid_counts(row["machine_type"], accelerator) == (int(row["bundled_count"]),), row


def test_what_is_sold():
    assert sold_on("NVIDIA_TESLA_A100") == (*(f"a2-highgpu-{n}g" for n in (1, 2, 4, 8)), "a2-megagpu-16g")
    assert sold_on("NVIDIA_RTX_3090") == ()
    assert sold_with("n1-standard-64") == ("NVIDIA_TESLA_P4", "NVIDIA_TESLA_T4", "NVIDIA_TESLA_V100")
    assert counts_sold("NVIDIA_TESLA_T4") == (1, 2, 4)
    assert counts_sold("NVIDIA_TESLA_K80") == (1, 2, 4, 8)
    assert counts_sold("NVIDIA_RTX_3090") == ()
    assert {"NVIDIA_TESLA_T4", "NVIDIA_L4", "TPU_V2", "TPU_V5E"} <= set(sold_accelerators())
    assert "NVIDIA_RTX_3090" not in sold_accelerators()


def test_nothing_is_known_of_unknown_names():
    assert valid_counts("no-such", "NVIDIA_TESLA_T4") == valid_counts("n1-standard-4", "NO_SUCH") == ()
    assert derived_counts("no-such", "NVIDIA_TESLA_T4") == derived_counts("n1-standard-4", "NO_SUCH") == ()
