"""Explanations of verdicts: contributions, sentences, nearest examples and counterfactuals."""
