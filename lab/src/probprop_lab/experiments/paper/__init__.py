"""The tables and figures of [PBP15] and its supplement, beside the numbers it prints."""
