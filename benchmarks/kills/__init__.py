"""Whether ``dvc repro`` comes through being killed at any moment."""
