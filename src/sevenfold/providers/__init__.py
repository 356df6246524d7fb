"""Model providers: how a request is put, how an answer is read, what each error means."""
