import pytest

from stoker.hardware.choosing.offers import CPU, NOT_ORDERED, SYSTEM, Place, catalog_offers
from stoker.hardware.prices import hourly_price

OFFERS = list(catalog_offers())


def named(name, count=1):
    return next(offer for offer in OFFERS if (offer.name, offer.count) == (name, count))


def test_a_t4_on_the_cheapest_machine_that_takes_it():
    t4 = named("NVIDIA_TESLA_T4")
    price = hourly_price("n1-highmem-2", "T4", 1, "us-central1")
    assert (t4.place, t4.provider, t4.machine, t4.usd_per_hour) == (
        Place.CLOUD,
        "gcp",
        "n1-highmem-2",
        price.usd_per_hour,
    )
    assert t4.regions > 10 and t4.device_bytes == 16e9 and t4.market == "data-centre"


def test_each_count_is_an_offer_of_its_own():
    counts = [offer.count for offer in OFFERS if offer.name == "NVIDIA_TESLA_V100"]
    assert counts == sorted(set(counts)) and {1, 2, 4, 8} <= set(counts)


def test_consumer_cards_and_systems_are_bought_or_rented_elsewhere():
    assert named("NVIDIA_RTX_2080_TI").place is Place.PURCHASE and named("NVIDIA_RTX_2080_TI").market == "consumer"
    assert NOT_ORDERED in named("NVIDIA_RTX_4090").notes and named("NVIDIA_RTX_4090").usd_per_hour
    assert named("DGX A100", 8).market == SYSTEM and named("DGX A100", 8).usd_per_hour is None


def test_machines_without_any():
    found = [offer for offer in OFFERS if offer.is_cpu]
    assert all(offer.name == CPU and offer.vcpus and offer.usd_per_hour and offer.memory_bytes for offer in found)
    assert "n1-standard-4" in {offer.machine for offer in found}


def test_tpus_only_for_those_who_can_use_them():
    assert not any(offer.name.startswith("TPU") for offer in OFFERS)
    found = [offer for offer in catalog_offers(with_tpus=True) if offer.name.startswith("TPU")]
    assert found and all(offer.place is Place.CLOUD and offer.usd_per_hour for offer in found), "nobody can buy one"


@pytest.mark.parametrize("region", ["europe-west4", "southamerica-east1"])
def test_a_region_that_has_none_says_so(region):
    for offer in catalog_offers(region):
        if offer.provider == "gcp" and offer.chip is not None:
            assert (offer.region == region) != any(f"no zone of {region} has it" in note for note in offer.notes)


def test_every_offer_has_a_price_or_is_bought():
    assert all(offer.usd_per_hour for offer in OFFERS if offer.place is Place.CLOUD)
    assert all(offer.memory_bytes > 0 for offer in OFFERS)
