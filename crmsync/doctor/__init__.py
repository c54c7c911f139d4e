"""What can be known about an org before anything is written to it, and what to do about what is wrong."""
