"""Recorded sessions held once more, by the engine and against the simulated provider.

    recording  what was said in a recorded session, step by step, with its times
    provider   the simulated provider, which answers what the recorded model answered
    run        one session from its first word to its last, and what came of it
    pauses     what clearing after a pause was said to save, and what it saved
    checks     what must hold at every step: nothing lost, everything can be put back

The provider enforces its rules and bills every token, and its clock moves as the recorded one did, so a replay
tells what a session would have cost with these settings, and whether any of its requests would have been refused.
"""
