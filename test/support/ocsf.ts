/**
 * What OCSF 1.5 says of an API Activity (class 6003) and the objects in it, as far as Strata's use of
 * them reaches: which members there are, which are required, of which one at least.
 * https://schema.ocsf.io/1.5.0/classes/api_activity
 */
import { Ajv2020, type AnySchema, type ErrorObject } from 'ajv/dist/2020.js';

const text = { type: 'string', minLength: 1 };
const integer = { type: 'integer' };
/** One of these members, and no others. */
const only = (properties: object, required: string[] = [], oneOf: string[] = []): AnySchema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
  ...(oneOf.length > 0 && { anyOf: oneOf.map((name) => ({ required: [name] })) }),
});
const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, text]));

const product = only(
  texts('name', 'uid', 'cpe_name', 'lang', 'path', 'url_string', 'vendor_name', 'version'),
  [],
  ['name', 'uid'],
);
const metadata = only(
  {
    ...texts('correlation_uid', 'event_code', 'log_level', 'log_name', 'log_provider'),
    ...texts('log_version', 'original_time', 'tenant_uid', 'uid'),
    version: { type: 'string', pattern: '^[0-9]+\\.[0-9]+\\.[0-9]+$' },
    sequence: integer,
    logged_time: integer,
    modified_time: integer,
    processed_time: integer,
    labels: { type: 'array', items: text },
    profiles: { type: 'array', items: text },
    product,
  },
  ['product', 'version'],
);
const user = only(
  {
    ...texts('name', 'uid', 'uid_alt', 'full_name', 'email_addr', 'domain', 'type'),
    type_id: { enum: [0, 1, 2, 3, 4, 99] },
  },
  [],
  ['account', 'name', 'uid'],
);
const actor = only(
  { ...texts('app_name', 'app_uid', 'invoked_by'), user },
  [],
  ['process', 'user', 'invoked_by', 'session', 'app_name', 'app_uid'],
);
const endpointNames = [
  'ip',
  'uid',
  'name',
  'hostname',
  'svc_name',
  'instance_uid',
  'interface_uid',
  'interface_name',
  'domain',
];
const endpoint = only({ ...texts(...endpointNames), port: integer }, [], endpointNames);

const apiActivity = only(
  {
    activity_id: { enum: [0, 1, 2, 3, 4, 99] },
    category_uid: { const: 6 },
    class_uid: { const: 6003 },
    severity_id: { enum: [0, 1, 2, 3, 4, 5, 6, 99] },
    status_id: { enum: [0, 1, 2, 99] },
    time: integer,
    timezone_offset: { type: 'integer', minimum: -1080, maximum: 1080 },
    type_uid: integer,
    ...texts('activity_name', 'category_name', 'class_name', 'type_name', 'severity'),
    ...texts('status', 'status_code', 'status_detail', 'message', 'raw_data'),
    count: integer,
    metadata,
    actor,
    api: only(texts('operation', 'version'), ['operation']),
    src_endpoint: endpoint,
    dst_endpoint: endpoint,
    resources: {
      type: 'array',
      items: only(texts('name', 'uid', 'type', 'namespace', 'version'), [], ['name', 'uid']),
    },
    unmapped: { type: 'object' },
  },
  [
    'activity_id',
    'category_uid',
    'class_uid',
    'severity_id',
    'time',
    'type_uid',
    'metadata',
    'actor',
    'api',
    'src_endpoint',
  ],
);
const validate = new Ajv2020({ allErrors: true, strictRequired: false }).compile(apiActivity);

/** Null where it is one; `type_uid` is of the class and the activity, which no JSON Schema says. */
export function problemsOfOcsf(event: object): readonly ErrorObject[] | string | null {
  if (!validate(event)) return validate.errors!;
  const { class_uid, activity_id, type_uid, activity_name } = event as Record<string, number>;
  if (type_uid !== class_uid! * 100 + activity_id!) return `type_uid is ${type_uid}`;
  return activity_id === 99 && activity_name === undefined ? 'activity 99 has no name' : null;
}
