"""Matrices that are larger than memory: in files of whole test cases of one group, read one at a time."""
