"""Recorded sessions replayed by the engine against the simulated provider.

    recording  the content of a recorded session, step by step, with timestamps
    run        a replay, with a provider that gives the recorded answers
    checks     what must hold at every step, and what clearing after a pause saves

The provider enforces its rules and bills every token, and its clock moves as the recorded one did. So a replay shows
what a session would have cost with other settings, and whether any of its requests would have been refused.
"""
