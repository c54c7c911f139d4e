"""Rota wired together: settings, addresses, schedules, the admin site and the commands that start it."""
