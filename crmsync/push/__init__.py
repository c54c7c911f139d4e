"""A file of changes: what its columns mean in the org, whether every cell can be sent, and how it will be sent.

Nothing here writes. `columns` reads the header, `values` a cell, `checking` the whole file, `planning` what it will
take to send it.
"""
