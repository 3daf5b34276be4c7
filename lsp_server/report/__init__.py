"""What the local counters say, as figures, as a table for terminals and as one page of HTML.

Counters in, text out; nothing here reads or writes files.
"""
