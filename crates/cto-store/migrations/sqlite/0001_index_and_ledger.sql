-- The index: one row a run, a projection that `cto index rebuild` can replace at any time.
CREATE TABLE runs (
    run_id         TEXT   NOT NULL PRIMARY KEY,
    case_id        TEXT   NOT NULL,
    backend        TEXT   NOT NULL,
    stage          BIGINT NOT NULL,
    status         TEXT,            -- NULL while the run goes on
    started_at     TEXT   NOT NULL, -- fixed width, so that text order is time order
    finished_at    TEXT,
    blocker        TEXT,
    failure_reason TEXT,
    changed_files  BIGINT,
    wall_micros    BIGINT,
    pack_digest    TEXT,
    keyid          TEXT,
    origin         TEXT,
    title          TEXT   NOT NULL,
    conformance    BIGINT NOT NULL,
    fake_baseline  BIGINT NOT NULL, -- 1 for a run that only measures another: never the last one that is meant
    listed_at      TEXT   NOT NULL, -- started_at, but never later than when the row came here
    repository     TEXT,            -- which source repository it was started on, as far as this home knows
    created_seq    BIGINT           -- where the ledger has its creation; NULL for a run of elsewhere
);

-- Each holds the order of the listing after the column it filters by, then the columns that other filters look at:
-- a page is read in order, and what does not match is passed over without a visit to the table.
CREATE INDEX runs_newest     ON runs (listed_at, run_id);
CREATE INDEX runs_by_status  ON runs (status, listed_at, run_id, case_id, backend);
CREATE INDEX runs_by_case    ON runs (case_id, listed_at, run_id, status, backend);
CREATE INDEX runs_by_backend ON runs (backend, listed_at, run_id, status, case_id);
-- The runs of this home in the order of the ledger: no date that a pack carries has a say in which is the last.
CREATE INDEX runs_own               ON runs (fake_baseline, created_seq);
CREATE INDEX runs_own_by_repository ON runs (fake_baseline, repository, created_seq);

-- Kept by triggers, because counting a hundred thousand rows is slower than a summary may be.
CREATE TABLE run_counts (
    state TEXT   NOT NULL PRIMARY KEY,
    runs  BIGINT NOT NULL
);
INSERT INTO run_counts (state, runs) VALUES ('running', 0), ('pass', 0), ('fail', 0), ('blocked', 0);

CREATE TRIGGER runs_count_insert AFTER INSERT ON runs BEGIN
    UPDATE run_counts SET runs = runs + 1 WHERE state = COALESCE(NEW.status, 'running');
END;
CREATE TRIGGER runs_count_update AFTER UPDATE OF status ON runs WHEN OLD.status IS NOT NEW.status BEGIN
    UPDATE run_counts SET runs = runs - 1 WHERE state = COALESCE(OLD.status, 'running');
    UPDATE run_counts SET runs = runs + 1 WHERE state = COALESCE(NEW.status, 'running');
END;
CREATE TRIGGER runs_count_delete AFTER DELETE ON runs BEGIN
    UPDATE run_counts SET runs = runs - 1 WHERE state = COALESCE(OLD.status, 'running');
END;

-- The ledger: append-only and hash-chained. Nothing rebuilds it. All kinds of record stand in it alike: no column, index
-- or guard knows a kind.
CREATE TABLE ledger (
    seq     BIGINT NOT NULL PRIMARY KEY,
    prev    TEXT   NOT NULL,
    digest  TEXT   NOT NULL,
    kind    TEXT   NOT NULL,
    subject TEXT   NOT NULL, -- what the record is about
    once    TEXT,            -- of a key there is at most one record, ever
    at      TEXT   NOT NULL, -- as the record says, fixed width
    record  TEXT   NOT NULL  -- RFC 8785 JSON
);
CREATE UNIQUE INDEX ledger_once ON ledger (once);
CREATE INDEX ledger_by_kind    ON ledger (kind, seq);
CREATE INDEX ledger_by_subject ON ledger (subject, kind, seq);

CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
-- `INSERT OR REPLACE` removes rows without any delete trigger, so what it could remove is refused before the insert.
CREATE TRIGGER ledger_only_append BEFORE INSERT ON ledger
WHEN NEW.seq <> COALESCE((SELECT MAX(seq) FROM ledger), 0) + 1
  OR NEW.prev <> COALESCE((SELECT digest FROM ledger ORDER BY seq DESC LIMIT 1),
                          '0000000000000000000000000000000000000000000000000000000000000000')
  OR EXISTS (SELECT 1 FROM ledger WHERE once = NEW.once)
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

-- Runs in the ledger that were created and not sealed: what recovery looks at, without a walk over the ledger. Part of
-- the index; kept by triggers, so that no way into the ledger can forget it.
CREATE TABLE open_runs (
    run_id TEXT NOT NULL PRIMARY KEY
);
CREATE TRIGGER open_runs_created AFTER INSERT ON ledger WHEN NEW.kind = 'run.created' BEGIN
    INSERT INTO open_runs (run_id) VALUES (NEW.subject) ON CONFLICT (run_id) DO NOTHING;
END;
CREATE TRIGGER open_runs_sealed AFTER INSERT ON ledger WHEN NEW.kind = 'run.sealed' BEGIN
    DELETE FROM open_runs WHERE run_id = NEW.subject;
END;
