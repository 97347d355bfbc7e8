"""Keras' `fit` that goes on where it was interrupted: on TensorFlow, JAX, PyTorch, and in tf_keras."""
