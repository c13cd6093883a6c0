"""Results are drawn from a study's runs: verdicts, analyses and the report."""
