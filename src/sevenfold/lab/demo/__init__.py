"""An agent at work for hundreds of turns, offline: `sevenfold demo`.

    harbour  the scratch project it works on
    script   the scripted model that plays its part at the simulated provider
    worker   the process the agent lives in
    figures  what the agent's process reports, what it all cost, and what must hold
    run      the demonstration itself, with the kill in the middle

The texts are in ``scratch/``: every byte of them is part of the requests, and so of the figures.
"""
