"""An HTTP server between programs and their providers: bytes pass untouched, and what passed is recorded.

upstreams   where requests go
guard       who may use the gateway, and what is refused
relay       one connection of a program: requests out, the bytes of the answers back
recorder    reads a copy of what passed, in a thread of its own, and has it recorded
keeper      what is sent in place of requests
desk        where proposals wait for a person
broker      holds calls for workers that may be killed
server      the server
report      what a run cost, and what was done in it
"""
