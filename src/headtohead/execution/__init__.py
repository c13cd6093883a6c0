"""Runs in processes: what studies, sweeps and multiruns share."""
