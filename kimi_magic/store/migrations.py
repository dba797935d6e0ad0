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
    "2026-12 money": """
        ALTER TABLE requests ADD COLUMN paid TEXT;
        ALTER TABLE requests ADD COLUMN currency TEXT;
        UPDATE requests SET
            paid = CASE WHEN json ->> '$.simulated' OR json ->> '$.replayed' THEN NULL
                ELSE json ->> '$.cost' END,
            currency = json ->> '$.currency';
        CREATE INDEX requests_paid ON requests (currency, time, notebook, paid) WHERE paid IS NOT NULL;
        CREATE TABLE prices (
            number INTEGER PRIMARY KEY,
            base_url TEXT NOT NULL,
            model TEXT NOT NULL,
            since TEXT NOT NULL,
            json TEXT NOT NULL
        );
        CREATE TABLE budgets (
            per TEXT NOT NULL,
            notebook TEXT NOT NULL,
            amount TEXT NOT NULL,
            currency TEXT NOT NULL,
            PRIMARY KEY (per, notebook)
        );
        CREATE TABLE batches (
            batch TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            json TEXT NOT NULL,
            PRIMARY KEY (batch, fingerprint)
        ) WITHOUT ROWID;
    """,
}
"""Name → SQL, in the order in which they run."""
