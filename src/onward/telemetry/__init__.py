"""What Onward tells about itself, and the named points where tests make it fail."""
