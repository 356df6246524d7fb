"""An agent: a model with tools that works until it is done."""
