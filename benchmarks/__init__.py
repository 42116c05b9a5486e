"""eager, the stock torch.compile and onegraph on the same work, in one run: `python -m benchmarks`."""
