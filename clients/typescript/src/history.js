// The history of a run, sorted by who needs what of it.

/** Return the records for replay, the numbers of the messages that they have taken, memos, and what was tried. */
export function readHistory(rows) {
  const records = [];
  const taken = new Set();
  /** Outcomes of calls in the run that this one retries, by identity. */
  const memos = new Map();
  /** When the first attempt began of each call without an outcome. */
  const tried = new Map();
  for (const row of rows) {
    if (row.message !== undefined) taken.add(row.message);
    if (row.kind === 'memo') memos.set(row.identity.replace(/^=memo\./, ''), row);
    else if (row.kind !== 'note') records.push({ ...row, at: row.closed_at ?? row.opened_at ?? 0 });
    if (row.attempt === 1 && row.seq === undefined) tried.set(row.identity, row.opened_at);
  }
  return { records, taken, memos, tried };
}
