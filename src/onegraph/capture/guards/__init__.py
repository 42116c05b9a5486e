"""What a compiled frame assumes of the world: sources, guards, and the program that checks them."""
