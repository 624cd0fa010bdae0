"""Tables, documents and files of all model families: reading, validation and writing."""
