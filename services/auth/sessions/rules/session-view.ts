/** A session as people see it. */
import { Session } from '../../../../shared/contracts/auth.ts';
import { viewBy } from '../../../../shared/schema/view.ts';
import type { SessionRow } from '../../schema.ts';

export const sessionView = (row: SessionRow, currentId: string | undefined) => ({
  ...viewBy(Session, row),
  current: row.id === currentId,
});
