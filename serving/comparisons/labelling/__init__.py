"""Pages for annotators: reports of two results, and forms to label them."""
