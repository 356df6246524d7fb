"""Recorded sessions of any tool, as functions: nothing here prints, and nothing here writes to a recorded session.

transcript  one recorded session, opened without a lease: what `sevenfold.transcript` returns
sessions    which sessions are on this machine, and which one a name means
formats     what kind of file holds a session, and its log in the shared format
readers     converts what other tools record into the shared format
search      the recall index of a recorded session
facts       what left the context and matters, as text of a given length
audit       which facts its compactions kept and which left the context
fidelity    finds those facts, by code that shares nothing with the code that writes summaries
profile     where its context and its money went
requests    two requests compared, to the byte
rewrite     opens it for the engine on a draft, and writes the result to a new file or behind the old one
export      the conversation as text
"""
