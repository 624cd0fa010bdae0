"""Which version of a model answers, who decided that, and where it comes from."""
