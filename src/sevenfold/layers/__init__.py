"""What is let go, cheapest first: each layer looks at the view and, if needed, appends a decision."""
