"""What a person would see of a measurement."""


class Seen:
    """A screen that remembers its lines and notes."""

    def __init__(self):
        self.lines, self.notes = [], []

    def say(self, note):
        self.notes.append(note)

    def advance(self, done, of, what):
        self.lines.append((done, of, what))
