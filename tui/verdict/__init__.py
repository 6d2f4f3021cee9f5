"""From pictures to verdicts: pure rules, no clock and no input or output."""
