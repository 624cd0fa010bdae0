CREATE TABLE IF NOT EXISTS verdict_pairs (
    name TEXT, champion TEXT, challenger TEXT, source TEXT, champion_verdict TEXT, challenger_verdict TEXT,
    count INTEGER NOT NULL, since TEXT NOT NULL, until TEXT NOT NULL,
    PRIMARY KEY (name, champion, challenger, source, champion_verdict, challenger_verdict)
);
CREATE TABLE IF NOT EXISTS disagreements (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
    name TEXT, champion TEXT, challenger TEXT, source TEXT,
    case_id TEXT, about TEXT, champion_verdict TEXT, challenger_verdict TEXT,
    champion_probability REAL, challenger_probability REAL
);
CREATE TABLE IF NOT EXISTS lost (reason TEXT PRIMARY KEY, count INTEGER NOT NULL);
