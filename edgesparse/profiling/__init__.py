"""Where the emulated cycles of a plan go, layer by layer, and what they cannot exceed."""
