"""Tools that test and measure the engine: simulator, API rules, transcript profiles, audits and a demo."""
