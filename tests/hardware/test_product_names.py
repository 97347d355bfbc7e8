import pytest

from stoker.hardware.product_names import ProductName, product_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("NVIDIA A100-SXM4-40GB", ("a100", "40gb", "sxm")),
        ("NVIDIA A100 80GB PCIe", ("a100", "80gb", "pcie")),
        ("NVIDIA H100 80GB HBM3", ("h100", "80gb", "")),
        ("h100 80 GB", ("h100", "80gb", "")),
        ("a100_80gib", ("a100", "80gb", "")),
        ("Tesla T4", ("t4", "", "")),
        ("NVIDIA GeForce RTX 3090 Ti", ("rtx3090ti", "", "")),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", ("a100", "40gb", "sxm")),
        ("", ("", "", "")),
    ],
)
def test_parts(text, parts):
    assert product_name(text) == parts


def test_what_a_name_leaves_open_agrees_with_every_variant_and_what_it_says_must_hold():
    sxm = ProductName("a100", "40gb", "sxm")
    assert ProductName("a100", "", "").agrees_with(sxm)
    assert ProductName("a100", "40gb", "").agrees_with(sxm)
    assert not ProductName("a100", "80gb", "").agrees_with(sxm)
    assert not ProductName("a100", "", "pcie").agrees_with(sxm)
    assert not ProductName("a10", "", "").agrees_with(sxm)
