"""The three APIs of models, both directions: requests and answers, as pure functions of bytes."""
