"""What it costs and why: theory (no torch) and the benchmark."""
