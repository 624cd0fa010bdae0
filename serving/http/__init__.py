"""The HTTP server: checks, limits and routes of requests, workers, metrics and drift."""
