"""From vectors of fingerprints to models."""
