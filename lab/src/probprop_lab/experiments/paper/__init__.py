"""The tables and figures of [PBP15] and its supplement, next to the numbers it prints."""
