"""What PBP carries and how it is trained: posterior, likelihoods, engines, the one loop."""
