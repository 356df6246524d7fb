"""Real programs from npm, driven through sessions with compactions against the simulator.

programs   which programs and versions, how they are installed and run
story      the session they are driven through, and what a captured request must hold
capture    what they sent, shortened, for tests
"""
