"""The schema, step by step. A step has a name, is never changed, and runs once.

A file whose table of steps names one that is not here was written by a newer version.
"""

from __future__ import annotations

MIGRATIONS: dict[str, str] = {
    "2026-11 first": """
        CREATE TABLE conversations (
            id INTEGER PRIMARY KEY,
            notebook TEXT NOT NULL,
            name TEXT NOT NULL,
            head TEXT,
            undone TEXT NOT NULL,
            system TEXT,
            version INTEGER NOT NULL,
            UNIQUE (notebook, name)
        );
        CREATE TABLE turns (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL,
            conversation INTEGER NOT NULL REFERENCES conversations (id),
            json TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            UNIQUE (conversation, id)
        );
        CREATE TABLE requests (
            number INTEGER PRIMARY KEY,
            time TEXT NOT NULL,
            notebook TEXT,
            conversation TEXT,
            model TEXT NOT NULL,
            json TEXT NOT NULL
        );
        CREATE INDEX requests_by_notebook ON requests (notebook, time);
        CREATE INDEX requests_by_time ON requests (time);
    """,
}
"""Name → SQL, in the order in which they run."""
