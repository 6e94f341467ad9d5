/** What readers of the platform's layers know of rollouts: whose candidates hold for which tenants. */
import { Type, type Static } from 'typebox';
import { Author, described, StrictObject, Timestamp, TitledObject, Uuid } from './fields.ts';

/** The documents of the platform that are layers, by the names that the history gives them. */
export const LayerType = Type.Enum(['global_config', 'service_type_config']);

/** What a reader of layers needs of a rollout that is under way. */
export const RolloutInLayers = StrictObject({
  id: Uuid,
  stage: Type.Integer(),
  salt: Type.String(),
  percent: Type.Number(),
  tenants: Type.Array(Uuid),
  revision: Type.Integer(),
  updated_by: Author,
  updated_at: Timestamp,
  items: Type.Array(
    StrictObject({
      config_type: LayerType,
      resource_id: Type.String(),
      document: Type.Unknown({ description: 'The candidate; null: there is none' }),
    }),
  ),
});
export type RolloutInLayers = Static<typeof RolloutInLayers>;

/** Said with values of a tenant while a rollout is under way. */
export const RolloutSide = TitledObject('RolloutSide', 'On which side of a rollout a tenant is', {
  id: described(Uuid, "The rollout's id"),
  stage: Type.Integer({ description: 'Its stage, from 0 on' }),
  side: Type.Enum(['base', 'candidate'], {
    description: '`candidate`: this tenant has what is rolled out; `base`: what was before',
  }),
});
export type RolloutSide = Static<typeof RolloutSide>;
