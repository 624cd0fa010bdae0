"""The shipped models on measurements of others."""
