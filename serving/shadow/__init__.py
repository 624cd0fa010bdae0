"""Shadow mode: a challenger judges the requests that the champion answered, without being shown."""
