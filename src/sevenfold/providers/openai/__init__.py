"""Chat Completions and Responses, for OpenAI and every server that speaks as it does."""
