/**
 * When accounts were disabled and enabled: a row for each, which triggers write with the change
 * itself. They go with the account.
 */
import type { EntityManager } from 'typeorm';
import type { ResultOf } from '../../../../shared/contracts/index.ts';

/** The statements of the migration. */
export const statusHistoryTable: readonly string[] = [
  `CREATE TABLE auth.status_history (
    seq int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id uuid NOT NULL, status text NOT NULL, changed_at timestamptz NOT NULL
  )`,
  'CREATE INDEX status_history_of ON auth.status_history (user_id, seq)',
  `CREATE FUNCTION auth.note_status() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN
     IF TG_OP = 'DELETE' THEN
       DELETE FROM auth.status_history WHERE user_id = OLD.id;
     ELSE
       INSERT INTO auth.status_history (user_id, status, changed_at)
       SELECT NEW.id, NEW.status, GREATEST(clock_timestamp(), (
         SELECT changed_at FROM auth.status_history WHERE user_id = NEW.id ORDER BY seq DESC LIMIT 1));
     END IF;
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER status_noted AFTER INSERT OR DELETE ON auth.users
   FOR EACH ROW EXECUTE FUNCTION auth.note_status()`,
  `CREATE TRIGGER status_changed AFTER UPDATE ON auth.users
   FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION auth.note_status()`,
  // Of the accounts that there are: what was before nobody knows.
  `INSERT INTO auth.status_history (user_id, status, changed_at)
   SELECT id, status, clock_timestamp() FROM auth.users`,
];

/** An account that is being erased is none. */
export const accountsAt = (
  manager: EntityManager,
  ids: readonly string[],
  at: Date,
): Promise<ResultOf<'auth.users.at'>> =>
  manager.query(
    `SELECT u.id, u.email, u.display_name, (
       SELECT status FROM auth.status_history h
       WHERE h.user_id = u.id AND h.changed_at <= $2 ORDER BY seq DESC LIMIT 1) AS status
     FROM auth.users u WHERE u.id = ANY ($1) AND u.erasing_since IS NULL`,
    [ids, at],
  );
