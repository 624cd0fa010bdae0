"""Stored models, and which of them is champion."""
