/** What a change would do to effective configurations: the answer of a plan, and of a dry run that is asked for it. */
import { Type, type Static, type TProperties } from 'typebox';
import { Nullable, strict, Timestamp, Uuid } from './fields.ts';

const Count = Type.Integer({ minimum: 0 });

/** Which effective configuration: the parameters of GET effective. None for what holds for no agent and no service. */
export const ImpactContext = Type.Object(
  {
    agent_type: Type.Optional(Type.String()),
    service_id: Type.Optional(Type.String()),
    service_type: Type.Optional(Type.String()),
  },
  strict,
);
export type ImpactContext = Static<typeof ImpactContext>;

const ImpactItem = Type.Object(
  {
    tenant_id: Uuid,
    tenant_name: Type.String(),
    context: ImpactContext,
    key: Type.String(),
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
  strict,
);
export type ImpactItem = Static<typeof ImpactItem>;

export const Impact = Type.Object(
  {
    tenants: Type.Object(
      {
        total: Count,
        changed: Type.Integer({ description: 'Some effective value changes' }),
        shielded: Type.Integer({
          description: "The platform's layer changes, and no effective value does",
        }),
        invalid: Type.Integer({
          description: 'Stored documents, of all of them, that would newly be refused',
        }),
        clamped: Type.Integer({ description: 'A bound decides a value that changes' }),
      },
      strict,
    ),
    by_key: Type.Record(
      Type.String(),
      Type.Object(
        {
          changed: Count,
          shielded_by: Type.Record(Type.String(), Count, {
            description: 'By the layer that decides instead',
          }),
        },
        { ...strict, description: 'Numbers of tenants' },
      ),
    ),
    items: Type.Array(ImpactItem),
    next_cursor: Nullable(Type.String()),
  },
  strict,
);
export type Impact = Static<typeof Impact>;
export type ImpactCounts = Pick<Impact, 'tenants' | 'by_key'>;

/** What was planned on, and how far the look at the tenants came. */
export const planned = {
  base: Type.Object(
    { platform: Type.Integer(), tenant: Type.Optional(Type.Integer()), at: Timestamp },
    { ...strict, description: 'The revisions that the change would follow' },
  ),
  digest: Nullable(
    Type.String({
      maxLength: 200,
      description: 'Of the items and all that their impact depends on; null until complete',
    }),
  ),
  impact: Impact,
  complete: Type.Boolean({
    description: 'False: only so many tenants were looked at yet; go on with next_cursor',
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
