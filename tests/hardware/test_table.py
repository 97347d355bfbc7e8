from stoker.hardware.table import figure, lines, members, rows
from tests.hardware.builders import DATA, table


def test_every_packaged_file_reads_as_an_independent_reader_reads_it():
    for path in DATA.glob("*.csv"):
        assert list(rows(path.name)) == table(path.name), path.name


def test_no_cell_spans_two_lines_as_lines_assumes():
    assert len(lines("prices.csv")) == 1 + len(table("prices.csv"))


def test_cells():
    assert (figure("7.2"), figure("0"), figure("")) == (7.2, 0.0, None)
    assert (members("1|2|4"), members("x"), members("")) == (("1", "2", "4"), ("x",), ())


def test_every_source_named_in_a_table_is_listed():
    listed = {row["source_id"] for row in table("sources.csv")}
    named = {
        source
        for path in DATA.glob("*.csv")
        for row in table(path.name)
        for source in row.get("sources", "").split(";")
        if source
    }
    assert named <= listed
    assert {"S001", "A13", "C1"} <= named
