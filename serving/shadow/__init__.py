"""Shadow mode: a challenger judges the requests that the champion answered, and nobody sees its verdicts."""
