"""What the examples that end in simulated hardware share."""
