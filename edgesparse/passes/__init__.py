"""Rewrites of the graph: each a pure function Graph -> Graph; pipeline.py gives their order."""
