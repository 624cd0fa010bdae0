"""What it costs those who ask that a challenger judges the same."""
