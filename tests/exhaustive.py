"""Campaigns that prove of further cases what others prove: they run with `make campaigns ARGS=--all`, and not at every change.

A row is the beginning of a test's id. Each names what stays, and proves the same way, beside it.
"""

from __future__ import annotations

import pytest

EXHAUSTIVE = {
    "tests/attack/test_attack.py::test_nothing_is_let_in[raced reads-1]": "level 2",
    "tests/attack/test_attack.py::test_nothing_is_let_in[raced starts-1]": "level 2",
    "tests/attack/test_attack.py::test_nothing_is_let_in[raced steps-1]": "level 2",
    "tests/attack/test_attack.py::test_nothing_is_let_in[raced writes-1]": "level 2",
    "tests/live/test_checkpoint.py::test_killed_and_told_to_stop[tensorflow]": "[jax]",
    "tests/live/test_checkpoint.py::test_the_example_is_killed_and_goes_on": "test_examples.py: fashion_mnist, killed too",
    "tests/live/test_checkpoint.py::test_workers_of_which_one_is_killed[fsdp]": "[ddp]",
    "tests/live/test_distribute.py::test_keras_on_jax_is_keras_on_one_with_the_whole_batch[gpus": "[workers-…]",
    "tests/live/test_distribute.py::test_keras_on_jax_with_data_that_cannot": "test_keras_average.py: batches of 37",
    "tests/live/test_distribute.py::test_tf_keras_is_tf_keras_on_one_with_the_whole_batch[gpus]": "[workers]",
    "tests/live/test_distribute.py::test_what_scripts_do_with_tf_keras": "test_frameworks.py: parameter servers",
    "tests/live/test_distribute.py::test_where_replicas_train_each_by_itself_that_is_said[torch]": "[keras]",
    "tests/live/test_examples.py::test_a_resnet_on_labelled_photos": "test_examples.py: fashion_mnist",
    "tests/live/test_gcloud_logs.py::test_logging_read": "test_submit_and_stream_logs",
    "tests/live/test_gcloud_logs.py::test_stream_logs": "test_submit_and_stream_logs",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[clipped-64-where4-tf_keras]": "keras",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[files-64-where5-keras]": "tf_keras",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[none-64": "[sum-64-…]",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[object-64-where1-tf_keras]": "keras",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[own-37": "[plain-37-where9-…]",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[own-64-where0-tf_keras]": "keras",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[plain-33": "[plain-37-…]",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[plain-37-where7": "[plain-37-where9-…]",
    "tests/live/test_keras_average.py::test_as_one_device_with_the_whole_batch[sum-64-where2-tf_keras]": "keras",
    "tests/live/test_keras_average.py::test_a_step_is_left_out_by_all_where_one_has_numbers_too_large_for_fp16[gpus]": "workers",
    "tests/live/test_resume.py::test_a_pipeline_is_entered_where_it_was[finite-61]": "[finite-23]",
    "tests/live/test_resume.py::test_a_pipeline_is_entered_where_it_was[cached-61]": "[cached-23]",
    "tests/live/test_resume.py::test_a_pipeline_is_entered_where_it_was[endless-23]": "[finite-23]",
    "tests/live/test_resume.py::test_a_pipeline_is_entered_where_it_was[length not known-23]": "[length not known-65]",
    "tests/live/test_resume.py::test_three_workers_whose_chief_is_killed[arrays]": "[pipeline]",
    "tests/live/test_resume.py::test_batches_with_numbers_are_entered_where_they_were[torch": "[tensorflow-23]",
    "tests/live/test_resume.py::test_killed_in_the_middle_of_an_epoch[53]": "[21]",
    "tests/live/test_resume_backends.py::test_killed_in_the_middle_of_an_epoch[jax-endless": "[jax-arrays-…]",
    "tests/live/test_resume_backends.py::test_killed_in_the_middle_of_an_epoch[jax-finite": "[jax-arrays-…]",
    "tests/live/test_resume_backends.py::test_killed_in_the_middle_of_an_epoch[jax-length": "[jax-arrays-…]",
    "tests/live/test_resume_backends.py::test_killed_in_the_middle_of_an_epoch[torch-arrays": "[torch-finite-…]",
    "tests/live/test_resume_backends.py::test_killed_in_the_middle_of_an_epoch[torch-loader": "[torch-finite-…]",
    "tests/live/test_resume_backends.py::test_told_to_stop_it_saves_and_says_so_by_its_exit_code[torch]": "[jax]",
    "tests/live/test_resume_backends.py::test_two_processes_of_jax_whose_chief_is_killed[finite]": "[arrays]",
    "tests/live/test_resume_tf_keras.py::test_killed_in_the_middle_of_an_epoch[cached, 61]": "test_resume.py: [cached-23]",
    "tests/live/test_resume_tf_keras.py::test_killed_in_the_middle_of_an_epoch[endless, 23]": "[finite, 23]",
    "tests/live/test_resume_tf_keras.py::test_killed_in_the_middle_of_an_epoch[finite, 61]": "[finite, 23]",
    "tests/live/test_resume_tf_keras.py::test_killed_in_the_middle_of_an_epoch[length not known": "[finite, 23]",
    "tests/live/test_resume_tf_keras.py::test_two_workers_whose_chief_is_killed[arrays]": "[pipeline]",
    "tests/live/test_steps.py::test_fit_on_other_backends[torch]": "[jax]",
    "tests/live/test_steps.py::test_keras_on_two_workers_one_of_which_is_slow[computes]": "[reads]",
    "tests/live/test_typical_programs.py::test_keras_a_model_made_of_others_a_generator_that_ends_and_files_read_back[G": "",
}


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those of the tests that are not run at every change."""
    return [item for item in items if item.nodeid.startswith(tuple(EXHAUSTIVE))]
