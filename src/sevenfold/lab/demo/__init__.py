"""An offline demo of an agent that works for hundreds of turns: `sevenfold demo`.

    harbour  the scratch project it works on, and how its process is started there
    script   the scripted model at the simulated provider
    handover delegates work to forks and a reviewer, and kills their parent in the middle
    worker   the agent's process
    figures  the reports of the agent's process, the costs, and the checks at the end
    run      the demo itself, including the kill in the middle

The texts are in ``scratch/``: every byte of them is part of the requests and so affects the figures.
"""
