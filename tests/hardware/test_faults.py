from stoker.hardware.faults import both, closest, either


def test_phrases():
    assert [either([]), either([1]), either([1, 2]), either([1, 2, 4])] == ["", "1", "1 or 2", "1, 2 or 4"]
    assert both(["T4", "K80", "P100"]) == "T4, K80 and P100"


def test_a_mistyped_name_and_what_it_resembles():
    assert closest("us-centrl1", ["us-central1", "us-east1"], limit=1) == ["us-central1"]
    assert closest("nvidia-tesla-t5", ["NVIDIA_TESLA_T4", "TPU_V2"]) == ["NVIDIA_TESLA_T4"]
    assert closest("???", ["us-central1"]) == []
