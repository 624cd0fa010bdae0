"""A challenger judges beside the champion: what both say is counted, and only the champion answers."""
