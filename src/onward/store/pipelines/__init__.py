"""What pipelines write and read in a transaction: SQL shared by both databases."""
