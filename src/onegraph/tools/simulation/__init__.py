"""Data-parallel training past one machine, by simulation: what `onegraph simulate` shows."""
