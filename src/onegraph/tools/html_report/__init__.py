"""A run of a program as one HTML page: what `onegraph report` writes, and `onegraph.reporting`.

events ──collect (frames, graphs)──► data ──findings──► ranked by cost ──page──► HTML
"""
