"""Hyperparameter search: spaces, proposals and Optuna's sampler."""
