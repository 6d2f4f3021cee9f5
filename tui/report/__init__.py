"""What was seen and concluded, for machines (JSON contract) and for people (text). No terminal control."""
