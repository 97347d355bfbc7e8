from stoker.hardware.choosing.systems import systems
from tests.hardware.builders import table


def test_the_systems_of_the_documents_with_dense_figures():
    found = {one.name: one for one in systems()}
    assert {"DGX-1", "DGX-2", "DGX A100"} <= set(found)
    assert (found["DGX-2"].accelerators, found["DGX-2"].chip.memory_gb) == (16, 32)
    petaflops = {name: one.accelerators * (one.chip.fp16_tflops or 0) / 1000 for name, one in found.items()}
    assert (petaflops["DGX-1"], petaflops["DGX-2"], round(petaflops["DGX A100"], 1)) == (1, 2, 2.5)


def test_every_row_names_sources_that_there_are():
    known = {row["source_id"] for row in table("sources.csv")}
    assert all(set(row["sources"].split(";")) <= known for row in table("systems.csv"))
