"""Layer 2: old tool results are cleared when that pays off."""
