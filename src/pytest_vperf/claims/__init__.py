"""The judgement: criteria, thresholds and their files, hardware profiles, verdicts."""
