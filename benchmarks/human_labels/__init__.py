"""perfjudge compared with other tools and with the engineers, on comparisons that engineers labelled."""
