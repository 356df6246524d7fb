"""The inspector: a page on this machine that shows what happened inside the context windows of recorded sessions.

    server        the routes, and the streams of what is new
    guard         which requests are answered at all
    shelf         the sessions of this machine, and those that are open
    list_view     what the list of sessions shows
    session_view  what the page of a session shows
    request_view  what the page of a request shows
    proposal_view what a gateway that asks proposes for a session
    orders        what the page can have done
    wording       categories and causes in words
    assets        the page itself: modules, style, and uPlot

Looking changes no file of a session, and summaries are kept in a cache folder of Sevenfold's own. What the page has
done, a session's owner does.
"""
