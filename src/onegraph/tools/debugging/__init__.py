"""What a run has compiled, in files: the debug directory, and structured traces for `tlparse`."""
