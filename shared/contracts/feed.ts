/**
 * The change feed, answered by every node with a database: how other nodes learn what was
 * committed, and hand over audit events.
 */
import { Type } from 'typebox';
import { AuditFacts } from './audit.ts';
import { internal } from './contract.ts';
import { Nullable, Optional, StrictObject } from './fields.ts';

/**
 * One committed change as the feed and the broadcast carry it. `id` is the committing transaction,
 * unique and repeatable.
 */
export const ChangeRecord = StrictObject({
  id: Type.String(),
  scope: Type.String(),
  revision: Type.Integer(),
  keys: Type.Array(Type.String()),
});

/**
 * The key of a change that replaced settings on all nodes: it drops every cached identity, since
 * what a caller may do follows from settings, too. Through the feed it reaches a node that was away
 * meanwhile.
 */
export const settingsReplacedKey = 'settings_replaced';

/**
 * The key of a change that read the settings again on all nodes and found them as they were: it
 * drops nothing, and a node that was away meanwhile reads its own.
 */
export const settingsReloadedKey = 'settings_reloaded';

/**
 * The key of a change that concerns everything that was read with its scope, also what does not
 * exist: all members of a tenant, or a tenant's that is erased, of which no node keeps anything.
 */
export const wholeScopeKey = 'whole_scope';

/**
 * The key of a change after which somebody has no name any more: names are read with documents, and
 * no key says with which.
 */
export const nameForgottenKey = 'name_forgotten';

export const feedContracts = {
  'feed.poll': internal({
    summary:
      'Renew the caching lease of a node, unless a later poll has, and read the changes since its cursor',
    body: StrictObject({
      holder: Type.String({ description: 'The process that holds the lease' }),
      token: Type.String({ description: 'Of this poll alone' }),
      ordinal: Optional.Integer({
        minimum: 1,
        description: 'Higher than that of any poll of the holder before',
      }),
      answered: Optional.String({
        description:
          '`token` of the poll before whose answer the holder has; none before the first, and after the lease was given back',
      }),
      fence_ms: Type.Integer({
        minimum: 1,
        description: 'How long the lease lasts, at most, in milliseconds',
      }),
      cursor: Nullable(Type.String({ description: '`cursor` of the poll before' })),
      server: Optional.String({
        description: '`server` of the poll before; none where there is no cursor',
      }),
    }),
    result: StrictObject({
      cursor: Type.String(),
      complete: Type.Boolean({ description: '`changes` are all that came after the cursor' }),
      changes: Type.Array(ChangeRecord),
      server: Type.String({
        description: 'Which database server, which start of it, since when revisions are raised',
      }),
      at: Optional.Number({
        description: "By the database's clock, in milliseconds since 1970",
      }),
    }),
  }),
  'feed.leave': internal({
    summary: 'Give a caching lease back',
    body: StrictObject({
      holder: Type.String(),
      tokens: Type.Array(Type.String(), {
        description: 'Of the polls, one of which made the lease',
        maxItems: 200,
      }),
    }),
  }),
  'feed.settings-replaced': internal({
    summary: 'Have every node forget what callers may do, once all have their new settings',
    query: {
      unchanged: Optional.Literal(true, {
        description:
          'No node has other settings than before: nothing is forgotten, and nodes that were away read theirs',
      }),
    },
  }),
  'feed.record': internal({
    summary: 'Take audit events of a node without a database into the outbox',
    body: Type.Array(AuditFacts, { maxItems: 500 }),
  }),
} as const;
