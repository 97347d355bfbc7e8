import pytest

from stoker.core.errors import BadSpec
from stoker.hardware.choosing.amounts import bytes_of, gigabytes, parameters_of, usd_per_hour_of


@pytest.mark.parametrize(
    ("text", "count"), [("350M", 350e6), ("7b", 7e9), ("1.2e9", 1.2e9), ("1", 1), (" 25 k ", 25e3), (".5T", 5e11)]
)
def test_parameters(text, count):
    assert parameters_of(text) == pytest.approx(count)


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GB", 20e9), ("16GiB", 16 * 2**30), ("500 mb", 5e8), ("24", 24e9), ("1.5T", None), ("2TB", 2e12)],
)
def test_memory(text, size):
    if size is None:
        with pytest.raises(BadSpec):
            bytes_of(text)
    else:
        assert bytes_of(text) == pytest.approx(size)


@pytest.mark.parametrize(
    ("text", "usd"),
    [("3/h", 3), ("3", 3), ("$3 / hour", 3), ("48/day", 2), ("730/month", 1), ("3 USD/h", 3), ("0.5/h", 0.5)],
)
def test_budget(text, usd):
    assert usd_per_hour_of(text) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parameters_of, "0", "1 parameter at least"),
        (parameters_of, "lots", "write it as 350M"),
        (parameters_of, "-5M", "is no amount"),
        (parameters_of, "1e30", "the largest models known"),
        (parameters_of, "1e999", "no amount|too large"),
        (parameters_of, "nan", "is no amount"),
        (parameters_of, "350X", "is no amount"),
        (bytes_of, "0", "more than 0"),
        (bytes_of, "1e20 TB", "more than 0, and at most"),
        (bytes_of, "", "is no amount"),
        (usd_per_hour_of, "-3", "is no amount"),
        (usd_per_hour_of, "0/h", "more than 0 USD"),
        (usd_per_hour_of, "3/week", "such as 3/h"),
        (usd_per_hour_of, "cheap", "write it as 3/h"),
    ],
)
def test_what_is_none_is_refused_with_what_to_write(parse, text, said):
    with pytest.raises(BadSpec, match=said):
        parse(text)


def test_sizes_for_people():
    assert [gigabytes(size) for size in (21.62e9, 0.35e9, 12e6, 1.5e12, 400e3)] == [
        "21.6 GB",
        "0.35 GB",
        "12 MB",
        "1.5 TB",
        "400 kB",
    ]
