"""An MCP server over recorded sessions, for agents that are not ours: what left their context can be asked for.

sessions   which sessions may be read, and which of them is "this" one
answers    what the tools answer, as plain data
tools      the tools: names, descriptions, schemas, and the function behind each
protocol   requests and answers as bytes, without I/O
stdio      the server as a child of the agent's program
http       the server on a port of this machine, with the MCP SDK

Over standard input and output the protocol is spoken here, because the SDK takes two seconds to load, in every window,
and a program waits for its servers before the first message. Over HTTP the SDK serves, with the same tools.
"""
