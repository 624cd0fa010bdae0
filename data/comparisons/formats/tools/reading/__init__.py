"""What the readers of benchmark tools' files share: bytes, typed decoding, the way into tables."""
