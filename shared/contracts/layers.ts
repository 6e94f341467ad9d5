/** What config-resolver asks the two owners of configuration for: the stored layers of one effective configuration. */
import { Type, type TSchema } from 'typebox';
import { AgentConfig } from './agents.ts';
import { Bounds } from './bounds.ts';
import { action, Resource } from './contract.ts';
import { Identifier, Nullable, Slug, strict, Timestamp, Uuid } from './fields.ts';
import { GlobalEntry } from './global-entries.ts';
import { RiskConfig } from './risk.ts';
import { ServiceInstance } from './service-instances.ts';
import { ServiceType } from './service-types.ts';
import { tenantPath } from './tenant-document.ts';

/** Null where nothing is stored. */
const Layer = <Document extends TSchema>(document: Document) => Nullable(Resource(document));

export const layerContracts = {
  'tenant-config.layers': action({
    summary: "The tenant's layers of one effective configuration, from one snapshot",
    access: { level: 'internal' },
    changesNothing: true,
    path: tenantPath,
    query: {
      agent_type: Type.Optional(Slug),
      service_id: Type.Optional(Identifier),
      as_of: Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Timestamp])),
    },
    result: Type.Object(
      {
        revision: Type.Integer(),
        newest: Type.Integer({
          description:
            "The tenant's revision in the same snapshot, also where older layers are answered",
        }),
        at: Nullable({
          ...Timestamp,
          description:
            'The moment that `as_of` names, for a revision that of its write; null for now, and for a revision to come',
        }),
        risk: Layer(RiskConfig),
        agent: Layer(AgentConfig),
        service: Layer(ServiceInstance),
        bounds: Layer(Bounds),
      },
      strict,
    ),
  }),
  'tenant-config.layers.by-agent': action({
    summary: "The tenant's layers below each of its agent configurations, from one snapshot",
    access: { level: 'internal' },
    changesNothing: true,
    path: tenantPath,
    query: { as_of: Type.Optional(Type.Integer({ minimum: 0 })) },
    result: Type.Object(
      {
        revision: Type.Integer(),
        newest: Type.Integer(),
        risk: Layer(RiskConfig),
        agents: Type.Array(Resource(AgentConfig), { description: 'By agent type' }),
        bounds: Layer(Bounds),
      },
      strict,
    ),
  }),
  'tenant-config.layers.nearest': action({
    summary: "The tenant's names that are nearest to these, which it does not have",
    access: { level: 'internal' },
    changesNothing: true,
    path: tenantPath,
    query: { agent_type: Type.Optional(Slug), service_id: Type.Optional(Identifier) },
    result: Type.Object(
      {
        agent_type: Type.Optional(Type.Array(Type.String())),
        service_id: Type.Optional(Type.Array(Type.String())),
      },
      strict,
    ),
  }),
  'global-config.layers': action({
    summary: 'The platform layers of one effective configuration, from one snapshot',
    access: { level: 'internal' },
    changesNothing: true,
    query: {
      service_types: Type.Optional(Type.Array(Slug)),
      tenant_id: Type.Optional(Uuid),
      as_of: Type.Optional(Timestamp),
    },
    result: Type.Object(
      {
        revision: Type.Integer(),
        newest: Type.Integer({
          description:
            "The platform's revision in the same snapshot, also where older layers are answered",
        }),
        tenant_revision: Nullable(
          Type.Integer({ description: 'Of `tenant_id`, in the same snapshot' }),
        ),
        entries: Type.Array(Resource(GlobalEntry)),
        service_types: Type.Record(Type.String(), Resource(ServiceType)),
        bounds: Layer(Bounds),
      },
      strict,
    ),
  }),
} as const;
