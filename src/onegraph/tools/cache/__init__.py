"""The cache on disk as a user sees it: `onegraph cache`, and its entries as one value of bytes."""
