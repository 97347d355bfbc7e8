"""In which order `fit` reads its data, so that an epoch can be entered in its middle."""
