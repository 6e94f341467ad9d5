/** The change feed, answered by every node with a database: how other nodes learn what was committed, and hand over audit events. */
import { Type } from 'typebox';
import { AuditFacts } from './audit.ts';
import { action } from './contract.ts';
import { Nullable, strict } from './fields.ts';

const internal = { level: 'internal' } as const;

/** One committed change as the feed and the broadcast carry it. `id` is the committing transaction, unique and repeatable. */
export const ChangeRecord = Type.Object(
  {
    id: Type.String(),
    scope: Type.String(),
    revision: Type.Integer(),
    keys: Type.Array(Type.String()),
  },
  strict,
);

/**
 * The key of a change that replaced settings on all nodes: it drops every cached identity, since what a caller may do follows from
 * settings, too. Through the feed it reaches a node that was away meanwhile.
 */
export const settingsReplacedKey = 'settings_replaced';

export const feedContracts = {
  'feed.poll': action({
    summary: 'Renew the caching lease of a node and read the changes since its cursor',
    access: internal,
    body: Type.Object({ node_id: Type.String(), cursor: Nullable(Type.String()) }, strict),
    result: Type.Object(
      { cursor: Type.String(), reset: Type.Boolean(), changes: Type.Array(ChangeRecord) },
      strict,
    ),
  }),
  'feed.leave': action({
    summary: 'Give a caching lease back',
    access: internal,
    body: Type.Object({ node_id: Type.String() }, strict),
    result: Type.Null(),
  }),
  'feed.settings-replaced': action({
    summary: 'Have every node forget what callers may do, once all have their new settings',
    access: internal,
    result: Type.Null(),
  }),
  'feed.record': action({
    summary: 'Take audit events of a node without a database into the outbox',
    access: internal,
    body: Type.Array(AuditFacts, { maxItems: 500 }),
    result: Type.Null(),
  }),
} as const;
