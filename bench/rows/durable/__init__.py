"""Rows of stores with a journal, and of other engines that write to a disk."""
