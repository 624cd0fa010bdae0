"""Tables: files, documents, and what must hold in them, whatever the family."""
