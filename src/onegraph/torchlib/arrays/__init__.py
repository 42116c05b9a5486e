"""NumPy's arrays and functions in terms of torch: for real tensors, and for those that stand for them in a trace."""
