"""Recorded sessions replayed by the engine against the simulated provider.

    recording  what was said in a recorded session, step by step, with its times
    run        a replay, with a provider that answers what the recorded model answered
    checks     what must hold at every step, and what clearing after a pause saves

The provider enforces its rules and bills every token, and its clock moves as the recorded one did. So a replay shows
what a session would have cost with other settings, and whether any of its requests would have been refused.
"""
