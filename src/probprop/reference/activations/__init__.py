"""The activations: moments of a hidden unit's output, with their derivatives; one file each."""
