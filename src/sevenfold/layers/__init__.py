"""The layers that make room, cheapest first: each looks at the view and, if needed, appends a decision."""
