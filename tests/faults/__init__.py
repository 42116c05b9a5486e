"""What onegraph does when something goes wrong in it: `python -m tests.faults`."""
