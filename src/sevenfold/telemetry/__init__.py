"""Where events can go: a file of lines, or OpenTelemetry. A sink listens; it never vetoes and never fails."""
