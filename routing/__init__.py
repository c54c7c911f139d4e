"""Teams, reps and turns: every lead goes to exactly one rep, in fair turn."""
