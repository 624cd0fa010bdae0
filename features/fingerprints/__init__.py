"""From fingerprints to vectors."""
