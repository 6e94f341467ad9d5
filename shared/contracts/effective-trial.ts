/**
 * Trials of writes that also say what would become of one effective configuration: what is read
 * there before it is published is the server's word, not a reader's own merge.
 */
import { Type } from 'typebox';
import { described, Identifier, Nullable, Optional, Slug, TitledObject } from './fields.ts';

/** Of a trial of a write: what it would make of one effective configuration. */
export const EffectiveChanges = Type.Array(
  TitledObject('PreviewedValue', 'What one key is, and would be', {
    key: Type.String({ description: 'The key of effective configurations' }),
    before: Optional.Unknown({ description: 'Absent if there is no value' }),
    after: Optional.Unknown({ description: 'Absent if there is no value' }),
    decided_by: Nullable(
      Type.String({
        description: 'The layer of the value after, `bounds` for that of a bound; null: no value',
      }),
    ),
    path: Nullable(
      Type.String({ description: 'JSON Pointer of the value after, inside its document' }),
    ),
    enforced: Type.Boolean({ description: 'A bound decides the value after' }),
  }),
  {
    description:
      'The keys that are decided otherwise, or that a layer would say something else of, also where the value stays',
  },
);

/**
 * Of a write that can be tried with what it would make of one effective configuration. For what the
 * document itself is for, its path says. The names have no example: a write that is shown with one
 * would be refused without `effective`.
 */
const asked = {
  effective: Optional.Boolean({ description: 'With dry_run: also what effective values become' }),
};
const forAgent = {
  for_agent_type: Type.Optional(described(Slug, 'With effective: for this agent')),
};
const forService = {
  for_service_id: Type.Optional(described(Identifier, 'With effective: for this service')),
  for_service_type: Type.Optional(described(Slug, 'With effective: for this type of service')),
};
export const effectiveTrials = {
  risk: { ...asked, ...forAgent, ...forService },
  agents: { ...asked, ...forService },
  services: { ...asked, ...forAgent },
};
