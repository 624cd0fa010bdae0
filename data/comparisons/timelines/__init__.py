"""Results of many versions become the timelines that rules ask for (seed 000, chapter 5)."""
