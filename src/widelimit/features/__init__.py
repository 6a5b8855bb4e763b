"""The feature reading: how many columns each layer makes, and the map that makes them."""
