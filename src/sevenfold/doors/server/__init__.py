"""A server for agents: sessions over HTTP, with streams that can be resumed and tools at either end.

accounts    tenants, their tokens and their budgets, in SQLite or PostgreSQL
budget      no model is asked before what the answer may cost is reserved
definition  what a session is made of, and what a program may ask of it
events      what happened in a session, as a stream tells it
feed        the newest events of a session that is open here
live        a session that is open here, and what it is doing
sessions    all sessions: where they are, which are open, when they are closed
guard       which requests are answered at all
problems    errors as answers
routes      the requests
openapi     their description
metrics     counts and sizes, for Prometheus and OpenTelemetry
server      the server
client      the other side: a client for Python
"""
