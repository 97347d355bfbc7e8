"""`/gcs/BUCKET` in what containers are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.core.mounts import mounted_buckets, unmounted
from stoker.core.spec import Group, Machine, Program
from tests.builders import a_spec

BUCKETS = {"data": "/home/buckets/gs/data"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/gcs/data/x.tar.gz", "/home/buckets/gs/data/x.tar.gz"),
        ("pip3 install -q --user /gcs/data/a.tar.gz && ls /gcs/data", None),
        ("--in=/gcs/data/a", "--in=/home/buckets/gs/data/a"),
        ("'/gcs/data'", "'/home/buckets/gs/data'"),
        ("/gcs/data-2/x", "/gcs/data-2/x"),  # another bucket, which is not a folder here
        ("/gcs/datax", "/gcs/datax"),
        ("/mnt/gcs/data/x", "/mnt/gcs/data/x"),
        ("gs://data/x", "gs://data/x"),
    ],
)
def test_a_mount_becomes_the_folder(text: str, expected: str | None) -> None:
    if expected is None:
        expected = "pip3 install -q --user /home/buckets/gs/data/a.tar.gz && ls /home/buckets/gs/data"
    assert unmounted(text, BUCKETS) == expected


def test_only_containers_have_mounts() -> None:
    spec = replace(a_spec(), program=Program(args=("/gcs/from-args/x",)))
    assert mounted_buckets(spec) == set()
    group = Group(role="chief", count=1, machine=Machine(), image="i", command=("ls /gcs/one /gcs/two/x",))
    group = replace(group, env={"IN": "/gcs/three"})
    assert mounted_buckets(replace(spec, groups=(group,))) == {"from-args", "one", "two", "three"}
