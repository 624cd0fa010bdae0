"""Labels: their store, their endpoints, doubtful labels, and comparisons to label next."""
