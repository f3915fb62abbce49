"""Shapes: how values of each annotation become plain JSON data and come back."""
