"""Running the code of steps and effects: attempts, their time limits, and their threads."""
