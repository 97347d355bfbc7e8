import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.hardware.accelerators import accelerators
from stoker.hardware.machines import machine_types
from stoker.hardware.prices import Price, Unpriced, hourly_price, quote, quote_all
from stoker.hardware.regions import regions
from stoker.hardware.rules import check
from tests.hardware.builders import ask, chief, table

IOWA, BELGIUM = "us-central1", "europe-west1"
ROWS = [row for row in table("prices.csv") if row["provider"] == "gcp"]


def row_of(item, region, as_of):
    """The one row of this item, region and date, by an independent reading."""
    found = [row for row in ROWS if (row["item"], row["region"], row["as_of"]) == (item, region, as_of)]
    assert len(found) == 1
    return found[0]


def usd(item, region, as_of, column="on_demand_usd_h"):
    return float(row_of(item, region, as_of)[column])


def test_a_machine_with_gpus_attached_costs_its_row_and_one_row_per_gpu():
    expected = usd("n1-highcpu-16", IOWA, "2026-07-30") + 4 * usd("nvidia-tesla-t4", IOWA, "sky-v8")
    price = hourly_price("n1-highcpu-16", "T4", 4, IOWA)
    assert price == Price(usd_per_hour=pytest.approx(expected), as_of="sky-v8", notes=())
    assert price.usd_per_hour == pytest.approx(0.56679 + 4 * 0.35)


def test_spot_is_summed_of_spot_prices_and_of_two_generations_the_latest_counts():
    expected = usd("n1-standard-8", IOWA, "2026-07-30", "spot_usd_h")
    expected += 2 * usd("nvidia-tesla-v100", IOWA, "sky-v8", "spot_usd_h")
    assert usd("nvidia-tesla-v100", IOWA, "sky-2022", "spot_usd_h") == 0.74
    assert hourly_price("n1-standard-8", "V100", 2, IOWA, spot=True).usd_per_hour == pytest.approx(expected)


def test_a_machine_with_gpus_built_in_costs_one_row_whether_they_are_named_or_not():
    price = Price(usd_per_hour=usd("a2-highgpu-1g", IOWA, "2026-07-30"), as_of="2026-07-30", notes=())
    assert hourly_price("a2-highgpu-1g", "", 0, IOWA) == price
    assert hourly_price("a2-highgpu-1g", "A100", 1, IOWA) == price


def test_a_legacy_type_costs_as_what_it_stands_for():
    assert hourly_price("standard", "", 0, BELGIUM) == hourly_price("n1-standard-4", "", 0, BELGIUM)
    expected = usd("n1-standard-16", IOWA, "2026-07-30") + 4 * usd("nvidia-tesla-p100", IOWA, "sky-v8")
    assert hourly_price("complex_model_m_p100", "", 0, IOWA).usd_per_hour == pytest.approx(expected)
    assert hourly_price("complex_model_m_p100", "P100", 4, IOWA).usd_per_hour == pytest.approx(expected)


def test_a_retired_gpu_has_its_last_known_price_and_says_so():
    price = hourly_price("standard_gpu", "", 0, IOWA)
    expected = usd("n1-standard-8", IOWA, "2026-07-30") + usd("nvidia-tesla-k80", IOWA, "sky-2022")
    assert (price.usd_per_hour, price.as_of) == (pytest.approx(expected), "sky-2022")
    assert price.notes == ("nvidia-tesla-k80 is retired on Google Cloud: its last known price, of 2022",)


def test_where_the_region_has_the_gpu_but_no_price_another_regions_stands_in():
    price = hourly_price("n1-standard-8", "K80", 1, BELGIUM)
    expected = usd("n1-standard-8", BELGIUM, "2026-07-30") + usd("nvidia-tesla-k80", IOWA, "sky-2022")
    assert price.usd_per_hour == pytest.approx(expected)
    assert price.notes[0] == "nvidia-tesla-k80 priced as in us-central1"


def test_a_region_without_any_prices_is_priced_as_the_reference_region():
    price = hourly_price("n1-standard-4", "", 0, "europe-north2")
    assert price.usd_per_hour == usd("n1-standard-4", IOWA, "2026-07-30")
    assert price.notes == ("n1-standard-4 priced as in us-central1",)


def test_a_suspiciously_low_spot_price_says_so():
    assert row_of("nvidia-tesla-p100", "asia-east1", "sky-v8")["flag"] == "spot_under_10pct"
    note = "the spot price of nvidia-tesla-p100 is under a tenth of on demand: do not count on it"
    assert note in hourly_price("n1-standard-8", "P100", 1, "asia-east1", spot=True).notes
    assert hourly_price("n1-standard-8", "P100", 1, "asia-east1").notes == ()


def test_what_a_price_list_names_but_no_zone_has_is_not_offered():
    assert row_of("g2-standard-4", "europe-north1", "2026-07-30")["flag"].startswith("priced_but_no_zone_known")
    assert quote("g2-standard-4", "", 0, "europe-north1") == Unpriced(
        why="no zone of europe-north1 is listed with NVIDIA_L4"
    )


def test_what_is_priced_without_that_flag_is_priced_and_says_that_no_zone_is_listed():
    price = hourly_price("g4-standard-48", "", 0, IOWA)
    assert price.usd_per_hour == usd("g4-standard-48", IOWA, "2026-07-30")
    assert price.notes == ("no zone of us-central1 is listed with NVIDIA_RTX_PRO_6000",)


def test_tpus_are_priced_by_the_board_or_the_chip_with_their_hosts():
    assert hourly_price("cloud_tpu", "", 0, IOWA).usd_per_hour == usd("tpu-v2-8", IOWA, "sky-v8")
    assert hourly_price("cloud_tpu", "TPU_V3", 8, IOWA).usd_per_hour == usd("tpu-v3-8", IOWA, "sky-v8")
    chips = 4 * usd("tpu-v5litepod-1", IOWA, "sky-v8")
    assert hourly_price("ct5lp-hightpu-4t", "", 0, IOWA).usd_per_hour == pytest.approx(chips)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (("no-such", "", 0, IOWA), "there is no machine type 'no-such'"),
        (("n1-standard-4", "", 0, "mars"), "there is no region 'mars'"),
        (("n1-standard-4", "T4", 3, IOWA), "n1-standard-4 is not sold with 3 x T4"),
        (("n1-standard-4", "", 3, IOWA), "n1-standard-4 is not sold with 3 x accelerators of no type"),
        (("n1-standard-4", "L4", 1, IOWA), "n1-standard-4 is not sold with 1 x L4"),
        (("standard_gpu", "K80", 2, IOWA), "standard_gpu is not sold with 2 x K80"),
        (("n1-standard-4", "K80", 1, "asia-south1"), "no zone of asia-south1 is listed with NVIDIA_TESLA_K80"),
        (("a4-highgpu-8g", "", 0, IOWA), "a4-highgpu-8g is not sold on demand, only at spot prices"),
        (("a3-ultragpu-8g", "", 0, IOWA), "no price of a3-ultragpu-8g is known"),
    ],
)
def test_where_nothing_is_known_there_is_a_reason(request_, why):
    assert quote(*request_) == Unpriced(why=why)
    assert hourly_price(*request_) is None


def test_what_is_sold_only_at_spot_prices_has_one():
    price = hourly_price("a4-highgpu-8g", "", 0, IOWA, spot=True)
    assert price.usd_per_hour == usd("a4-highgpu-8g", IOWA, "sky-v8", "spot_usd_h")


def test_a_job_costs_all_its_replicas():
    requests = [
        chief("n1-highcpu-16", "T4", 4),
        ask("worker", 9, "n1-highcpu-16", "T4", 4),
        ask("ps", 3, "n1-highmem-8"),
    ]
    shapes, _ = check("CUSTOM", requests, IOWA)
    gpu_machine = usd("n1-highcpu-16", IOWA, "2026-07-30") + 4 * usd("nvidia-tesla-t4", IOWA, "sky-v8")
    expected = 10 * gpu_machine + 3 * usd("n1-highmem-8", IOWA, "2026-07-30")
    assert quote_all(shapes, IOWA) == Price(usd_per_hour=pytest.approx(expected), as_of="sky-v8", notes=())


def test_one_unknown_price_makes_the_sum_unknown():
    shapes, _ = check("CUSTOM", [chief("n1-standard-4"), ask("worker", 1, "a3-ultragpu-8g")], IOWA)
    assert quote_all(shapes, IOWA) == Unpriced(why="no price of a3-ultragpu-8g is known")
    assert quote_all([], IOWA) == Unpriced(why="nothing is asked for")


@pytest.mark.parametrize("machine", list(machine_types()))
@pytest.mark.parametrize("spot", [False, True])
def test_every_unflagged_machine_row_is_the_price_of_that_machine(machine, spot):
    column = "spot_usd_h" if spot else "on_demand_usd_h"
    for row in ROWS:
        if row["item"] == machine and row[column] and "priced_but_no_zone_known" not in row["flag"]:
            assert hourly_price(machine, "", 0, row["region"], spot).usd_per_hour == pytest.approx(float(row[column]))


@given(
    machine=st.one_of(st.sampled_from(list(machine_types())), st.text()),
    accelerator=st.one_of(st.just(""), st.sampled_from(list(accelerators())), st.text()),
    count=st.one_of(st.integers(-1, 16), st.integers()),
    region=st.one_of(st.sampled_from(list(regions())), st.text()),
    spot=st.booleans(),
)
def test_whatever_is_asked_there_is_a_positive_price_or_a_reason(machine, accelerator, count, region, spot):
    answer = quote(machine, accelerator, count, region, spot)
    assert answer.usd_per_hour > 0 if isinstance(answer, Price) else answer.why
