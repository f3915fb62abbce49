"""What users write with: apps, workflows, steps, waits and handles on runs."""
