"""Made-up conversations in several languages, with statements in them that the user expects to hold.

    statements.toml   rules, decisions, preferences, permissions, definitions and changed minds
    blind.toml        the same, written without having seen the word lists of the engine
    small_talk.toml   what is said between them
    statements        the statements, as data
    talk              chats: small talk, orders and pastes, with the statements in random places
    models            simulated models that read a request for a summary and answer it
    session           a chat held in a session that is compacted again and again, and what is left of the statements

The same seed gives the same conversation.
"""
