"""perfjudge beside other tools and the engineers themselves, on comparisons that people judged."""
