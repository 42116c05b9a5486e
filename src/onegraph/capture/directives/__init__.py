"""What the program says about how it is to be captured, and what that does to a call."""
