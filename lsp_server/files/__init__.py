"""Which documents may be read and completed, by their names, texts, settings and ignore files."""
