"""ECG demo: train, prune and export the beat-detection net (see README.md)."""
