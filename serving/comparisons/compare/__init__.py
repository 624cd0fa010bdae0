"""Two sides of a change, a run each or several: judged, confirmed by further runs, told where CI looks."""
