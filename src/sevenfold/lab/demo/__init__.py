"""An agent at work for hundreds of turns, offline: `sevenfold demo`.

    harbour  the scratch project it works on, and the start of an agent's process in it
    script   the scripted model that plays its part at the simulated provider
    handover work that is handed to forks and a reviewer, with a kill in the middle
    worker   the process the agent lives in
    figures  what the agent's process reports, what the demo cost, and what must hold
    run      the demo itself, with the kill in the middle

The texts are in ``scratch/``: every byte of them is part of the requests, and so of the figures.
"""
