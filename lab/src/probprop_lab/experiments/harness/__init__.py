"""What the experiments are made of: jobs, methods, the runner, the results file, tables."""
