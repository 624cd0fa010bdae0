"""What a person would see of a measurement."""


class Seen:
    def __init__(self):
        self.lines, self.notes = [], []

    def print_note(self, note):
        self.notes.append(note)

    def show_progress(self, done, of, what):
        self.lines.append((done, of, what))
