"""How right the verdicts are: random cases with a known truth, the whole analysis on each, and the score."""
