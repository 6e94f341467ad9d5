type PowerScope = 'identity:manage' | 'approvals:configure' | 'scim:provision' | null;

/**
 * What a writing action can lead to. Every writing contract says it beside its access
 * (`leadsTo`), because a right is only worth what can be made of it: whoever may register a
 * sign-in provider can become anybody.
 *
 * The first five are **powerful**: people alone do them, signed in within the last 10 minutes. An
 * API key does only where it was given the scope of its own that is named here, which no other
 * scope includes.
 */
interface Consequence {
  /** What it changes, for the docs. */
  readonly changes: string;
  /** Only for powerful ones: the scope that opens it to API keys; null if none does. */
  readonly power?: { readonly keyScope: PowerScope };
}

export const consequences = {
  sign_in: {
    changes: 'who may sign in, as whom, and with which roles',
    power: { keyScope: 'identity:manage' },
  },
  credentials: {
    changes: 'which credentials there are, and what they may do',
    power: { keyScope: 'identity:manage' },
  },
  approvers: {
    changes: 'who is asked for approval, who decides, and how many it takes',
    power: { keyScope: 'approvals:configure' },
  },
  provisioning: {
    changes: 'who is a member of a tenant, and in which groups, as its directory says',
    power: { keyScope: 'scim:provision' },
  },
  proof: { changes: 'what proof exists', power: { keyScope: null } },
  configuration: { changes: 'values that automation acts by; history keeps them' },
  operations: { changes: 'approvals that are asked for, automations, deliveries, caches' },
  own_sign_in: { changes: "the caller's own sign-in, by what the call itself proves" },
  removal: { changes: 'takes a right or a credential away, and gives none' },
} as const satisfies Readonly<Record<string, Consequence>>;
export type ConsequenceName = keyof typeof consequences;
export type PowerName = {
  [K in ConsequenceName]: (typeof consequences)[K] extends { power: object } ? K : never;
}[ConsequenceName];

export const isPower = (name: ConsequenceName): name is PowerName => 'power' in consequences[name];

/** The scope that opens powerful calls to API keys; null where they never may. */
export const scopeOfPower = (name: PowerName): PowerScope => consequences[name].power.keyScope;

/** Parameters as they came, unchecked. */
export type CallParams = Readonly<Record<string, unknown>>;

/** Powerful for some of its calls; for the others it is `otherwise`. */
export interface PowerfulFor {
  readonly power: PowerName;
  readonly otherwise: Exclude<ConsequenceName, PowerName>;
  /** For the docs: "where it …". */
  readonly where: string;
  /** The parameters are unchecked; the gateway asks also before it has read the body. */
  readonly includes: (params: CallParams) => boolean;
}

export type LeadsTo = ConsequenceName | PowerfulFor;

/** The power that this call takes; undefined for one that takes none. */
export function powerOf(leadsTo: LeadsTo | undefined, params: CallParams): PowerName | undefined {
  if (leadsTo === undefined) return undefined;
  if (typeof leadsTo === 'string') return isPower(leadsTo) ? leadsTo : undefined;
  return leadsTo.includes(params) ? leadsTo.power : undefined;
}

/** A member of the unchecked body; undefined where there is none. */
export function inBody(params: CallParams, name: string): unknown {
  const { body } = params;
  return typeof body === 'object' && body !== null && Object.hasOwn(body, name)
    ? (body as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** Whether unchecked roles are more than `viewer`, who decides nothing and changes nothing. */
export const exceedViewer = (roles: unknown): boolean =>
  Array.isArray(roles) && roles.some((role) => role !== 'viewer');
