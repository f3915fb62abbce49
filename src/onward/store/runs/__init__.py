"""Changes to runs, and what can be read of them: functions of one transaction."""
