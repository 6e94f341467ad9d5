import { describe, expect, test } from '@jest/globals';
import {
  createDecisionLinks,
  type DecisionLink,
} from '../../services/notifier/rules/decision-links.ts';
import {
  linkDeciderOf,
  type AskedGroups,
  type LinkFacts,
} from '../../services/tenant-config/rules/decider.ts';
import type { DecisionRight } from '../../shared/contracts/notifier.ts';
import fc, { runs } from '../support/properties.ts';

const key = 'k'.repeat(32);
const other = 'o'.repeat(32);
const keys = { webhook_secret: null, secret_key: key, secret_key_previous: null };
const links = createDecisionLinks(keys);
const now = new Date('2026-01-01T12:00:00Z');
const link: DecisionLink = {
  approvalId: '0b7e1c0e-6f6e-4d8e-9f53-6f0b4f0d1c11',
  tenantId: '5f0c7d5e-1f7b-4d55-8d0a-3a4f7f1f2b22',
  decision: 'approve',
  recipient: 'ann@example.com',
  expiresAt: new Date('2026-01-01T13:00:00Z'),
};
const invalid = { problem: 'invalid' };

describe('a link', () => {
  test('opens as it was issued, whatever is in it', () => {
    const whole = fc.record({
      approvalId: fc.string(),
      tenantId: fc.uuid(),
      decision: fc.constantFrom('approve' as const, 'deny' as const),
      recipient: fc.string({ unit: 'grapheme', maxLength: 254 }),
      expiresAt: fc
        .integer({ min: now.getTime() / 1000 + 1, max: 4e9 })
        .map((seconds) => new Date(seconds * 1000)),
    });
    fc.assert(
      fc.property(whole, (each) => {
        const token = links.issue(each);
        fc.pre(token.length <= 4000);
        expect(token).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$/);
        expect(links.open(token, now)).toEqual({ link: each });
      }),
    );
  });

  test('opens until it expires', () => {
    const token = links.issue(link);
    expect(links.open(token, new Date('2026-01-01T12:59:59.999Z'))).toEqual({ link });
    expect(links.open(token, link.expiresAt)).toEqual({ problem: 'expired' });
    expect(links.open(token, new Date('2036-01-01'))).toEqual({ problem: 'expired' });
  });

  test('has room for the longest address', () => {
    expect(
      links.open(links.issue({ ...link, recipient: `${'\u{1f600}'.repeat(125)}@a.b` }), now),
    ).toHaveProperty('link');
  });
});

describe('nothing else opens', () => {
  test('a token with any one character changed, added or left out', () => {
    const token = links.issue(link);
    const character = fc.constantFrom(...'ABab09-_.=+/ \n');
    fc.assert(
      fc.property(
        fc.nat(token.length),
        fc.nat(1),
        fc.option(character, { nil: '' }),
        (at, removed, put) => {
          const changed = token.slice(0, at) + put + token.slice(at + removed);
          fc.pre(changed !== token);
          expect(links.open(changed, now)).toEqual(invalid);
        },
      ),
      runs(500),
    );
  });

  test('the other decision, another tenant, approval, recipient or hour, under the same signature', () => {
    const signature = links.issue(link).split('.')[1]!;
    const changes: Partial<DecisionLink>[] = [
      { decision: 'deny' },
      { tenantId: link.approvalId },
      { approvalId: link.tenantId },
      { recipient: 'eve@example.com' },
      { expiresAt: new Date('2027-01-01') },
    ];
    for (const change of changes)
      expect(
        links.open(`${links.issue({ ...link, ...change }).split('.')[0]}.${signature}`, now),
      ).toEqual(invalid);
  });

  test.each([
    '',
    '.',
    '..',
    'a',
    'a.b',
    'a.b.c',
    '.'.repeat(5000),
    'a'.repeat(100_000),
    '\0',
    'é.é',
    `${'a'.repeat(43)}.${'é'.repeat(43)}`,
  ])('%j', (token) => {
    expect(links.open(token, now)).toEqual(invalid);
  });

  test('a signature cut short, padded, or of another text', () => {
    const [body, signature] = links.issue(link).split('.') as [string, string];
    for (const each of [
      '',
      signature.slice(0, -1),
      `${signature}=`,
      `${signature}A`,
      signature.toUpperCase(),
    ])
      expect(links.open(`${body}.${each}`, now)).toEqual(invalid);
  });
});

describe('who decides by a link', () => {
  const id = '7c1d3f0a-2b4e-4c6d-8e9f-0a1b2c3d4e5f';
  const active = { email_verified: true, status: 'active' } as const;
  const operator = { user_id: id, roles: ['operator' as const], groups: ['sre'] };
  const admin = { user_id: id, roles: ['tenant_admin' as const], groups: [] };
  const outside = { ...operator, groups: ['others'] };
  const listed = { email: { approval_recipients: ['Ann@Example.com'] } };
  const manned: AskedGroups = { names: ['sre', 'leads'], haveDeciders: true };
  const empty: AskedGroups = { names: ['sre', 'leads'], haveDeciders: false };
  const none: AskedGroups = { names: [], haveDeciders: false };
  const noFacts: LinkFacts = {
    address: 'ann@example.com',
    account: null,
    member: null,
    config: null,
    recipients: ['ann@example.com'],
    asked: manned,
  };
  const as = (right: DecisionRight, who = id) => ({ id: who, right });
  test.each<[who: string, facts: Partial<LinkFacts>, decider: ReturnType<typeof linkDeciderOf>]>([
    [
      'an operator of a group that is asked',
      { account: active, member: operator },
      as('group_member'),
    ],
    [
      'an administrator of a group that is asked',
      { account: active, member: { ...admin, groups: ['leads'] } },
      as('group_member'),
    ],
    ['one whose groups are not asked', { account: active, member: outside }, null],
    [
      'one whose groups are not asked, named by the configuration',
      { account: active, member: outside, config: listed },
      null,
    ],
    [
      'one whose groups are not asked, where those have no member',
      { account: active, member: outside, config: listed, asked: empty },
      null,
    ],
    [
      'one of no group, where no group was asked',
      { account: active, member: { ...operator, groups: [] }, asked: none },
      as('role'),
    ],
    ['an administrator of no group', { account: active, member: admin }, null],
    [
      'an administrator of no group, where those asked have no member',
      { account: active, member: admin, asked: empty },
      as('groups_without_members'),
    ],
    [
      'a viewer of a group that is asked, named by the configuration',
      { account: active, member: { ...operator, roles: ['viewer'] }, config: listed },
      null,
    ],
    [
      'a viewer, where no group was asked',
      { account: active, member: { ...operator, roles: ['viewer'] }, asked: none },
      null,
    ],
    [
      'a member whose account is disabled',
      { account: { ...active, status: 'disabled' }, member: operator },
      null,
    ],
    ['a person who is no member', { account: active, config: listed, asked: none }, null],
    [
      'a disabled account that no one proved, named by the configuration',
      { account: { email_verified: false, status: 'disabled' }, config: listed, asked: none },
      null,
    ],
    [
      'an address with an account that no one proved, named by the configuration',
      { account: { ...active, email_verified: false }, config: listed, asked: none },
      as('recipient', 'ann@example.com'),
    ],
    [
      'an address that the configuration names, where the groups have no member',
      { config: listed, asked: empty },
      as('recipient', 'ann@example.com'),
    ],
    ['an address that the configuration names, where they have', { config: listed }, null],
    [
      'an address that the configuration names last',
      { config: { email: { default_recipients: ['ann@example.com'] } }, asked: none },
      as('recipient', 'ann@example.com'),
    ],
    [
      'an address that the configuration did not name when it was asked for',
      { config: listed, recipients: [], asked: none },
      null,
    ],
    [
      'an address that the configuration names no more',
      { config: { email: {} }, asked: none },
      null,
    ],
  ])('%s', (...[, facts, decider]) => {
    expect(linkDeciderOf({ ...noFacts, ...facts })).toEqual(decider);
  });
});

describe('keys', () => {
  test('another key opens nothing', () => {
    expect(
      createDecisionLinks({ ...keys, secret_key: other }).open(links.issue(link), now),
    ).toEqual(invalid);
    expect(
      createDecisionLinks({ ...keys, webhook_secret: other }).open(links.issue(link), now),
    ).toEqual(invalid);
  });

  test('SECRET_KEY_PREVIOUS still opens, and signs no more', () => {
    const rotated = createDecisionLinks({ ...keys, secret_key: other, secret_key_previous: key });
    expect(rotated.open(links.issue(link), now)).toEqual({ link });
    expect(links.open(rotated.issue(link), now)).toEqual(invalid);
  });

  test('WEBHOOK_SECRET signs with SECRET_KEY: whoever has only one of them makes no link', () => {
    const both = { webhook_secret: 'w', secret_key: other, secret_key_previous: key };
    const own = createDecisionLinks(both);
    const madeByBoth = own.issue(link);
    expect(own.open(madeByBoth, now)).toEqual({ link });
    for (const one of [
      { ...keys, secret_key: other },
      { ...keys, secret_key: 'w' },
      { ...keys, webhook_secret: 'w', secret_key: 'w' },
      { ...both, secret_key: key, secret_key_previous: null },
    ]) {
      const others = createDecisionLinks(one);
      expect(others.open(madeByBoth, now)).toEqual(invalid);
    }
    expect(own.open(links.issue(link), now)).toEqual(invalid);
    const before = createDecisionLinks({ ...both, secret_key: key, secret_key_previous: null });
    expect(own.open(before.issue(link), now)).toEqual({ link });
  });

  test('without any key there are no links', () => {
    expect(() =>
      createDecisionLinks({ webhook_secret: 'w', secret_key: null, secret_key_previous: key }),
    ).toThrow('SECRET_KEY');
  });
});
