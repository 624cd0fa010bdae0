"""What a challenger says of comparisons beside the champion."""
