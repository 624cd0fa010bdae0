"""Why a comparison got its verdict: in sentences, beside labelled ones, and what would change it."""
