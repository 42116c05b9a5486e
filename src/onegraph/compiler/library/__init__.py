"""Library calls: for a matrix product or convolution the fastest that there is, its weight packed for it."""
