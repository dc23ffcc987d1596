"""Where results end: counted, collected, or written to a file under the identifiers that users gave."""
