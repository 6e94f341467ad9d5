/**
 * What an API key, or the trust in a workload, may be narrowed to. A contract says in `narrow` by
 * what of its calls that is told; a narrow key opens no other contract.
 */
import { Type, type Static } from 'typebox';
import { AgentType, Optional, ServiceId, StrictObject } from './fields.ts';

/** The most names of one kind. */
const mostNarrowed = 50;

const list = { minItems: 1, maxItems: mostNarrowed, uniqueItems: true } as const;

export const NarrowedTo = StrictObject(
  {
    service_ids: Optional.Array(ServiceId, {
      ...list,
      description: 'Only calls about these service instances',
    }),
    agent_types: Optional.Array(AgentType, {
      ...list,
      description: 'Only calls about these types of agent',
    }),
    documents: Optional.Array(
      Type.String({
        maxLength: 400,
        pattern: '^/[!-~]+$',
        description: 'The path of a document, as change sets have it',
        examples: ['/config/global/http_client_timeout_seconds'],
      }),
      { ...list, description: 'Only these documents' },
    ),
  },
  {
    minProperties: 1,
    title: 'NarrowedTo',
    description:
      'What a key is for: what a call names must be in each list that can name it, and in one at least',
    examples: [{ service_ids: ['checkout-api'] }],
  },
);
export type NarrowedTo = Static<typeof NarrowedTo>;
export type Narrowing = keyof NarrowedTo;

/**
 * By what of a call it is told whether it is within what a key is narrowed to.
 *
 * | Value      | A narrow key may call it                                                    |
 * | ---------- | --------------------------------------------------------------------------- |
 * | absent     | never                                                                       |
 * | narrowings | where the parameters, or the body, name what the key is for                 |
 * | `row`      | where its handler finds that what is stored under the id is within          |
 * | `own`      | always: it is about the caller alone                                        |
 */
export type Narrow = readonly Narrowing[] | 'row' | 'own';

/** The parameter that each list has names of; a document's is its path. */
export const narrowedParameters = {
  service_ids: 'service_id',
  agent_types: 'agent_type',
} as const;
