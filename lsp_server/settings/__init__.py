"""The tree of settings, the layers that they are read from, and when those change."""
