/**
 * What each kind of credential may call, over all contracts, as `checkAccess` decides it on every
 * node; and that two scopes of one key open nothing that neither opens alone. The same over HTTP and
 * the bus, for fewer kinds, is in gateway/isolation.test.ts and services/bus-access.test.ts.
 */
import { describe, expect, test } from '@jest/globals';
import { checkAccess, type Caller } from '../../shared/access.ts';
import { isPower, scopeOfPower, type LeadsTo } from '../../shared/contracts/consequences.ts';
import { isRead, type Contract } from '../../shared/contracts/contract.ts';
import { keyScopes, type KeyScope } from '../../shared/contracts/roles.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import type { NarrowedTo } from '../../shared/contracts/narrow-keys.ts';
import { visitRoles } from '../../shared/contracts/visits.ts';
import { codeOf } from '../../shared/errors.ts';

const own = '3c1d7a52-0f5e-4b7e-9b52-6f0d5a1b2c3d';
const other = '9a41c0de-7a41-4f0e-8b6c-0d5e8a1b2c3d';
const minutesAgo = (minutes: number): string =>
  new Date(Date.now() - minutes * 60_000).toISOString();

const all = Object.entries(contractTable) as [string, Contract][];
/** What users call, and not everybody may. */
const ofCallers = all.filter(
  ([
    ,
    {
      access: { level },
    },
  ]) => level !== 'public' && level !== 'internal',
);
/**
 * Parameters of a call without power, and of one with it where the contract tells the two apart.
 */
function madeFor({ leadsTo }: Contract): Readonly<Record<string, unknown>>[] {
  const plain = { tenant_id: own };
  if (typeof leadsTo !== 'object') return [plain];
  const candidates = [
    { roles: ['operator'] },
    { groups: ['sre'] },
    { sign_in_policy: 'any' },
    { status: 'active' },
  ].map((body) => ({ ...plain, body }));
  const powerful = candidates.filter((params) => leadsTo.includes(params));
  expect(powerful.length).toBeGreaterThan(0);
  return [plain, ...powerful];
}

const calls = new Map(all.map(([, contract]) => [contract, madeFor(contract)]));
const callsOf = (contract: Contract) => calls.get(contract)!;

const refusalOf = (
  contract: Contract,
  caller: Caller | undefined,
  params: Readonly<Record<string, unknown>>,
): unknown => {
  try {
    checkAccess(contract, caller, params);
    return undefined;
  } catch (error) {
    return codeOf(error);
  }
};

const person = (fields: Partial<Caller>): Caller => ({
  type: 'user',
  id: 'somebody',
  tenant_id: own,
  roles: [],
  platform_roles: [],
  session_id: 'a session',
  signed_in_with: 'passkey',
  authenticated_at: minutesAgo(1),
  ...fields,
});
const platformRoles = ['platform_admin'];
const everything = { roles: ['tenant_admin'] as const, platform_roles: platformRoles };
const keyOf = (scopes: readonly KeyScope[], fields: Partial<Caller> = {}): Caller => {
  const { session_id: _session, authenticated_at: _at, ...rest } = person(fields);
  return { ...rest, scopes, api_key: { id: 'k', name: 'k', made_by: 'somebody' } };
};

/** Kinds of credentials, and the code that refuses each everywhere but where `except` says. */
const shutOut: readonly [kind: string, Caller | undefined, code: string, except: string][] = [
  ['nobody', undefined, 'auth_token_missing', 'none'],
  ['whoever has not accepted an invitation', person({ tenant_id: null }), 'tenant_mismatch', 'own'],
  [
    'a member of a disabled tenant',
    person({ tenant_disabled: true }),
    'auth_tenant_disabled',
    'disabled',
  ],
  [
    'a password under a strong policy',
    person({ ...everything, signed_in_with: 'password', stronger_sign_in_required: true }),
    'auth_stronger_sign_in_required',
    'weak',
  ],
  ['a key without scopes', keyOf([], everything), 'insufficient_scope', 'none'],
];
const visiting = { visit: { id: 'a visit', until: minutesAgo(-30) } };
const admits: Readonly<Record<string, (contract: Contract) => boolean>> = {
  none: () => false,
  own: ({ access }) => access.level === 'authenticated',
  disabled: ({ access }) => 'inDisabledTenant' in access,
  weak: ({ access }) => 'withAnySignIn' in access,
};

test.each(shutOut)('%s is refused what is not said to be open', (_kind, caller, code, except) => {
  const refused = new RegExp(`^(${code}|insufficient_role)$`);
  for (const [name, contract] of all) {
    if (contract.access.level === 'public') continue;
    for (const params of callsOf(contract)) {
      const refusal = refusalOf(contract, caller, params);
      if (admits[except]!(contract)) expect([name, refusal]).not.toEqual([name, code]);
      else expect([name, refusal]).toEqual([name, expect.stringMatching(refused)]);
    }
  }
});

describe('a visitor of a tenant', () => {
  const reader = person({ roles: visitRoles });
  const visitor = person({ roles: visitRoles, ...visiting });
  /** Whoever made the caller left the roles that they have elsewhere. */
  const careless = person({ ...everything, ...visiting });

  test('reads what a reader of it reads, and nothing else', () => {
    for (const [name, contract] of ofCallers)
      for (const params of callsOf(contract)) {
        const { access, rest } = contract;
        const refused = (caller: Caller, tenantId = own): unknown => [
          name,
          refusalOf(contract, caller, { ...params, tenant_id: tenantId }),
        ];
        if ('whileVisiting' in access) {
          expect(refused(visitor)).toEqual([name, undefined]);
          continue;
        }
        const reads = rest ? rest.method === 'GET' : isRead(contract);
        for (const tenantId of [own, other]) {
          const expected = reads ? refused(reader, tenantId) : [name, 'visit_reads_only'];
          expect(refused(visitor, tenantId)).toEqual(expected);
        }
        if (!reads) expect(refused(careless)).toEqual([name, 'visit_reads_only']);
      }
  });

  test('only leaves by a write', () => {
    const leaving = all.filter(([, { access }]) => 'whileVisiting' in access);
    expect(leaving.map(([name]) => name).toSorted()).toEqual([
      'auth.logout',
      'auth.switch-tenant',
      'tenant-config.visits.end',
    ]);
  });
});

const isPowerful = (leadsTo: LeadsTo | undefined, params: Readonly<Record<string, unknown>>) =>
  leadsTo !== undefined &&
  (typeof leadsTo === 'string' ? isPower(leadsTo) : leadsTo.includes(params));

describe('what is powerful', () => {
  const people: [string, Caller][] = [
    ['an administrator of both', person({ ...everything })],
    ['an operator', person({ roles: ['operator'] })],
    ['a viewer', person({ roles: ['viewer'] })],
    ['an administrator of another tenant', person({ roles: ['tenant_admin'], tenant_id: other })],
  ];
  test.each(people)('%s does nothing more by an old sign-in than by none of it', (_who, caller) => {
    const old = { ...caller, authenticated_at: minutesAgo(11) };
    for (const [name, contract] of all)
      for (const params of callsOf(contract)) {
        const fresh = refusalOf(contract, caller, params);
        const late = refusalOf(contract, old, params);
        const powerful = isPowerful(contract.leadsTo, params);
        if (fresh !== undefined) expect([name, late]).toEqual([name, fresh]);
        else if (powerful) expect([name, late]).toEqual([name, 'auth_reauth_required']);
      }
  });

  test('is open to a key by the scope of its power alone, whoever owns the key', () => {
    for (const [name, contract] of all)
      for (const params of callsOf(contract)) {
        const { leadsTo } = contract;
        if (leadsTo === undefined || !isPowerful(leadsTo, params)) continue;
        const power = typeof leadsTo === 'string' ? leadsTo : leadsTo.power;
        const named = isPower(power) ? scopeOfPower(power) : null;
        for (const scope of keyScopes) {
          const opened = refusalOf(contract, keyOf([scope], everything), params) === undefined;
          const may = scope === named && contract.keyScope !== null;
          if (opened) expect([name, scope, may]).toEqual([name, scope, true]);
        }
      }
  });
});

describe.each(['user', 'service_account'] as const)('the key of a %s', (type) => {
  const opened = (scopes: readonly KeyScope[]): Set<string> => {
    const caller = { ...keyOf(scopes, everything), type };
    return new Set(
      all.flatMap(([name, contract]) =>
        callsOf(contract).flatMap((params, index) =>
          refusalOf(contract, caller, params) === undefined ? [`${name} ${index}`] : [],
        ),
      ),
    );
  };
  const alone = new Map(keyScopes.map((scope) => [scope, opened([scope])]));

  test('with two scopes opens what either opens, and nothing else', () => {
    for (const [index, first] of keyScopes.entries())
      for (const second of keyScopes.slice(index)) {
        const either = new Set([...alone.get(first)!, ...alone.get(second)!]);
        expect([first, second, [...opened([first, second])].toSorted()]).toEqual([
          first,
          second,
          [...either].toSorted(),
        ]);
      }
  });

  test('with every scope opens no powerful call that its owner may not make', () => {
    const narrow = { roles: ['viewer'] as const, platform_roles: [] };
    for (const [name, contract] of all)
      for (const params of callsOf(contract)) {
        const key = { ...keyOf(keyScopes, narrow), type };
        const owner = person(narrow);
        if (refusalOf(contract, owner, params) === undefined) continue;
        const opens = refusalOf(contract, key, params) === undefined;
        expect([name, opens]).toEqual([name, false]);
      }
  });
});

/**
 * What narrow keys open, whole: what is not here opens to none. Handlers judge what is `row`, which
 * gateway/narrow-rights.test.ts shows.
 */
const openToNarrow: Readonly<Record<string, readonly string[] | string>> = {
  'auth.me': 'own',
  'config-resolver.decide': ['service_ids', 'agent_types'],
  'config-resolver.resolve': ['service_ids', 'agent_types'],
  'gateway.watch.effective': ['service_ids', 'agent_types'],
  'gateway.watch.flags': ['service_ids', 'agent_types'],
  'notifier.automations.start': ['service_ids', 'agent_types'],
  'notifier.automations.get': 'row',
  'notifier.automations.heartbeat': 'row',
  'notifier.automations.redeem': 'row',
  'notifier.automations.finish': 'row',
  'tenant-config.rollback': 'row',
  'config-resolver.flags.evaluate': 'row',
  'config-resolver.flags.evaluate-all': 'row',
  ...Object.fromEntries(
    ['tenant-config', 'global-config'].flatMap((service) =>
      ['create', 'edit', 'submit', 'cancel', 'apply', 'rebase'].map((step) => [
        `${service}.changesets.${step}`,
        'row',
      ]),
    ),
  ),
};
const documentVerbs = /\.(get|put|patch|delete)$/;

describe('a narrow key', () => {
  const owner = { ...everything, tenant_id: own };
  const narrowKey = (to: NarrowedTo): Caller => ({
    ...keyOf(keyScopes, owner),
    narrowed_to: to,
  });
  const risk = `/tenants/${own}/config/risk`;
  const keys: readonly NarrowedTo[] = [
    { service_ids: ['checkout'] },
    { agent_types: ['scaler'] },
    { documents: [risk] },
    { service_ids: ['checkout'], agent_types: ['scaler'], documents: [risk] },
  ];

  test('opens a document, a context, or what its handler judges, and nothing else', () => {
    for (const [name, contract] of all) {
      const { narrow } = contract;
      if (narrow === undefined) expect(Object.keys(openToNarrow)).not.toContain(name);
      else if (typeof narrow === 'object' && narrow.includes('documents'))
        expect(name).toMatch(documentVerbs);
      else expect([name, narrow]).toEqual([name, openToNarrow[name]]);
    }
  });

  test.each(ofCallers)('%s', (_name, contract) => {
    const { narrow, params: schema } = contract;
    const isInBody = !('service_id' in schema.properties || 'agent_type' in schema.properties);
    const asked = (names: Readonly<Record<string, string>>) => ({
      tenant_id: own,
      key: 'k',
      project_id: 'p',
      service_type: 't',
      configuration_name: 'c',
      ...names,
      body: names,
    });
    for (const to of keys) {
      const refused = (params: Readonly<Record<string, unknown>>): unknown =>
        refusalOf(contract, narrowKey(to), params);
      const wide = refusalOf(contract, keyOf(keyScopes, owner), asked({}));
      if (wide !== undefined || typeof narrow === 'string') continue;
      const about = narrow?.filter((each) => to[each] !== undefined) ?? [];
      const inside = { service_id: 'checkout', agent_type: 'scaler' };
      expect(refused(asked({ service_id: 'other', agent_type: 'other' }))).toBe(
        about.includes('documents') && contract.rest?.path === '/tenants/{tenant_id}/config/risk'
          ? undefined
          : 'insufficient_scope',
      );
      const isNamed = about.every(
        (each) =>
          each !== 'documents' || contract.rest?.path === '/tenants/{tenant_id}/config/risk',
      );
      const opens = about.length > 0 && isNamed;
      expect(refused(asked(inside))).toBe(opens ? undefined : 'insufficient_scope');
      // Before the body is read nothing is known of it; the owner asks again.
      const { body: _body, ...unread } = asked({});
      const isUnknown = narrow !== undefined && isInBody && !narrow.includes('documents');
      if (isUnknown) expect(refused(unread)).toBeUndefined();
      for (const strange of [['checkout'], { checkout: 1 }, null, 1])
        if (opens && !about.includes('documents'))
          expect(
            refused({
              tenant_id: own,
              service_id: strange,
              agent_type: strange,
              body: { service_id: strange, agent_type: strange },
            }),
          ).toBe('insufficient_scope');
    }
  });
});
