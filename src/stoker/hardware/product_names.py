"""A product name taken apart: "NVIDIA A100-SXM4-40GB" is the family a100, with 40 GB, in the form sxm.

Drivers, shops and people write the same card in many ways. Vendor and marketing words carry nothing; a memory size and
a form choose among the variants of a family; every other word belongs to the family, so that an unknown word ("Ti",
"Laptop", "Max-Q") makes an unknown card rather than a wrong one.
"""

import re
from typing import NamedTuple

VENDOR_WORDS = frozenset({"nvidia", "tesla", "geforce", "amd", "instinct", "intel", "google", "cloud"})
MARKETING_WORDS = frozenset({"gpu", "blackwell", "server", "edition", "ac", "hbm2", "hbm2e", "hbm3", "hbm3e"})
FORMS = {"pcie": "pcie", "nvl": "nvl", "oam": "oam", "sxm": "sxm"} | {f"sxm{n}": "sxm" for n in range(2, 7)}


class ProductName(NamedTuple):
    """The parts of a product name that tell chips apart; "" where the name says nothing."""

    family: str
    memory: str
    form: str

    def agrees_with(self, chip: "ProductName") -> bool:
        """Whether this name may mean that chip: the same family, and nothing said that the chip contradicts."""
        return self.family == chip.family and self.memory in ("", chip.memory) and self.form in ("", chip.form)


def product_name(text: str) -> ProductName:
    """Take a name apart, whatever its case and punctuation."""
    plain = re.sub(r"(\d+)[ _-]*gi?b(?![a-z0-9])", r"\1gb ", text.lower())
    words = re.findall(r"[a-z0-9]+", re.split(r"\bmig\b", plain)[0])  # a MIG slice is a part of the card it is cut from
    family, memory, form = "", "", ""
    for word in words:
        if word in FORMS:
            form = FORMS[word]
        elif re.fullmatch(r"\d+gb", word):
            memory = word
        elif word not in VENDOR_WORDS and word not in MARKETING_WORDS:
            family += word
    return ProductName(family, memory, form)
