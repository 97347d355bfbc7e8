"""Keras 3 and tf_keras: `fit` on several devices and machines, its steps, parameter servers."""
