-- The search index. Everything here can be rebuilt from the log.

-- The position and digest of the last line of the log that was indexed.
CREATE TABLE reached (one INTEGER PRIMARY KEY, offset INTEGER NOT NULL, digest BLOB NOT NULL);

-- A record with text, by its place in its conversation (lane 1: sub-agents that share the file).
CREATE TABLE record (
  id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, lane INTEGER NOT NULL, place INTEGER NOT NULL,
  timestamp TEXT NOT NULL, offset INTEGER NOT NULL
);
CREATE UNIQUE INDEX record_place ON record (lane, place);

-- A piece of one of its passages.
CREATE TABLE piece (
  id INTEGER PRIMARY KEY, record INTEGER NOT NULL, kind TEXT NOT NULL, tool TEXT NOT NULL, size INTEGER NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX piece_record ON piece (record);

-- A tool call: the tool, the record with its result, how many characters of it are indexed, and its file if offloaded.
CREATE TABLE call (
  id TEXT PRIMARY KEY, tool TEXT NOT NULL DEFAULT '', result INTEGER, size INTEGER NOT NULL DEFAULT 0,
  path TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

-- The words of a piece, the parts of camel-case words, the speaker and the date. The text itself is in the piece.
CREATE VIRTUAL TABLE words USING fts5 (
  said, parts, labels, content = '', columnsize = 0, tokenize = 'porter unicode61 remove_diacritics 2'
);
