"""What commands do to files that were written: remove a session, find secrets, mask them everywhere."""
