"""The parts of the benchmark: rows by group, peers, measuring, and the report."""
