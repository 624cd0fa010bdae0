"""Explanations of verdicts: contributions, sentences, nearest examples, counterfactuals."""
