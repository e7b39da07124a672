"""What the package costs in time and memory: ``python -m benchmarks`` (``make bench``)."""
