"""Labels by several annotators: votes, reliability of annotators, consensus and storage."""
