"""How long verdicts on matrices take, and whether what they name as drivers drove them."""
