/**
 * What a change would do to effective configurations: the answer of a plan, and of a dry run that
 * is asked for it.
 */
import { Type, type Static, type TProperties } from 'typebox';
import { described, Nullable, strict, TenantId, Timestamp } from './fields.ts';

const Count = Type.Integer({ minimum: 0, description: 'Number of tenants' });

/**
 * Which effective configuration: the parameters of GET effective. None for what holds for no agent
 * and no service.
 */
export const ImpactContext = Type.Object(
  {
    agent_type: Type.Optional(Type.String({ description: 'Type of agent' })),
    service_id: Type.Optional(Type.String({ description: 'Service instance' })),
    service_type: Type.Optional(Type.String({ description: 'Type of cloud service' })),
  },
  {
    ...strict,
    title: 'ImpactContext',
    description: 'What an effective configuration is for; nothing: no agent and no service',
  },
);
export type ImpactContext = Static<typeof ImpactContext>;

const ImpactItem = Type.Object(
  {
    tenant_id: TenantId,
    tenant_name: Type.String({ description: "The tenant's name" }),
    context: ImpactContext,
    key: Type.String({ description: 'The key of effective configurations' }),
    before: Type.Optional(Type.Unknown({ description: 'Absent where there is no value' })),
    after: Type.Optional(Type.Unknown({ description: 'Absent where there is no value' })),
    decided_by: Nullable(
      Type.String({
        description:
          'The layer of the value after, `bounds` for that of a bound; null: there is none',
      }),
    ),
    problem: Type.Optional(
      Type.String({ description: 'Why a stored document would newly be refused' }),
    ),
  },
  { ...strict, title: 'ImpactItem', description: 'One effective value that changes' },
);
export type ImpactItem = Static<typeof ImpactItem>;

export const Impact = Type.Object(
  {
    tenants: Type.Object(
      {
        total: described(Count, 'All that were looked at'),
        changed: Type.Integer({ description: 'Some effective value changes' }),
        shielded: Type.Integer({
          description: "The platform's layer changes, and no effective value does",
        }),
        invalid: Type.Integer({
          description: 'Stored documents, of all of them, that would newly be refused',
        }),
        clamped: Type.Integer({ description: 'A bound decides a value that changes' }),
      },
      { ...strict, description: 'Numbers of tenants' },
    ),
    by_key: Type.Record(
      Type.String(),
      Type.Object(
        {
          changed: described(Count, 'Tenants in which it changes'),
          shielded_by: Type.Record(Type.String(), Count, {
            description: 'By the layer that decides instead',
          }),
        },
        { ...strict, description: 'Numbers of tenants' },
      ),
      { description: 'By key of effective configurations' },
    ),
    items: Type.Array(ImpactItem, { description: 'The values that change, a page of them' }),
    next_cursor: Nullable(
      Type.String({ description: '`cursor` of the next page; null on the last one' }),
    ),
  },
  {
    ...strict,
    title: 'Impact',
    description: 'What a change would do to the effective configurations of tenants',
  },
);
export type Impact = Static<typeof Impact>;
export type ImpactCounts = Pick<Impact, 'tenants' | 'by_key'>;

/** What was planned on, and how far the look at the tenants came. */
export const planned = {
  base: Type.Object(
    {
      platform: Type.Integer({ description: "The platform's" }),
      tenant: Type.Optional(
        Type.Integer({ description: "The tenant's, where it is its document" }),
      ),
      at: described(Timestamp, 'When it was looked at'),
    },
    { ...strict, title: 'PlanBase', description: 'The revisions that the change would follow' },
  ),
  digest: Nullable(
    Type.String({
      maxLength: 200,
      description: 'Of the items and all that their impact depends on; null until complete',
    }),
  ),
  impact: Impact,
  complete: Type.Boolean({
    description: 'False: only so many tenants were looked at yet; continue with next_cursor',
  }),
} as const satisfies TProperties;

/** Of a dry run, where its impact is asked for. */
export const plannedToo = {
  base: Type.Optional(planned.base),
  digest: Type.Optional(planned.digest),
  impact: Type.Optional(planned.impact),
  complete: Type.Optional(planned.complete),
};

/** Holds what was counted up to there, so it is longer the more keys change. */
export const impactCursor = (maxLength: number) =>
  Type.Optional(
    Type.String({
      minLength: 1,
      maxLength,
      description: 'next_cursor of the page before, of the same change',
    }),
  );

/** Of a write that can be tried with its impact. */
export const impactQuery = {
  impact: Type.Optional(
    Type.Boolean({
      description: 'With dry_run: also what would change in effective configurations',
    }),
  ),
  cursor: impactCursor(8000),
};
