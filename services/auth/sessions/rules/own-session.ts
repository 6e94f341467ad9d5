/** The session that a request is made in. */
import type { Caller } from '../../../../shared/access.ts';
import { StrataError } from '../../../../shared/errors.ts';

export interface OwnSession {
  readonly user_id: string;
  readonly session_id: string;
}

/** Throws `auth_token_invalid` for whoever calls without one, such as an API key. */
export function ownSessionOf({ id, session_id: sessionId }: Caller): OwnSession {
  if (sessionId === undefined)
    throw new StrataError('auth_token_invalid', 'This needs your own session.');
  return { user_id: id, session_id: sessionId };
}
