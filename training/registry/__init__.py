"""Stored models, and their promotion to champion."""
