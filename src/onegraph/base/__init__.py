"""Configuration, events, errors and text: what every other layer stands on. Imports only the standard library."""
