"""Who reads what, when: poll loops, deadlines, the latest readings. Knows nothing of the screen."""
