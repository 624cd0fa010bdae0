"""``python -m serving.shadow``, as a server starts it."""

from serving.shadow.process import main

if __name__ == "__main__":
    main()
