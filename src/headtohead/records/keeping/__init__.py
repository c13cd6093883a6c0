"""Runs that are over are tagged, noted, archived, deleted and looked after; what trains is left alone."""
