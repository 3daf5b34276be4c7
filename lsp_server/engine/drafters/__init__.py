"""Draft sources: each proposes tokens that the target may accept."""
