"""What a person would see of a measurement."""


class Seen:
    """A screen that remembers its lines and notes."""

    def __init__(self):
        self.lines, self.notes = [], []

    def print_note(self, note):
        self.notes.append(note)

    def show_progress(self, done, of, what):
        self.lines.append((done, of, what))
