"""A server for agents: sessions over HTTP, with streams that can be resumed and tools at either end.

accounts    tenants, their tokens and their budgets, in SQLite or PostgreSQL
budget      reserves what an answer may cost before a model is asked
definition  what defines a session, and what a program may ask of it
events      what happened in a session, as a stream reports it
feed        the newest events of a session that is open here
live        a session that is open here, and what it is doing
options     what a server is made of, and its limits
sessions    all sessions, in three parts:
  stored_sessions   what defines each, and what its log says
  open_sessions     which are open here, and when they are closed
  runs              the jobs that work on them
guard       refuses requests before anything is done for them
problems    errors as answers
routes      the requests
openapi     their description
metrics     counts and sizes, for Prometheus and OpenTelemetry
server      the server
client      the other side: a client for Python; async_client is the same, awaited
"""
