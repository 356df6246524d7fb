"""Chat Completions and Responses, for OpenAI and all compatible servers."""
