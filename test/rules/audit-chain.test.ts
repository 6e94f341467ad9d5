/** The proof of the audit chain, on chains that were tampered with. */
import { describe, expect, test } from '@jest/globals';
import { checkLinks, eventHash, genesis, type Link } from '../../shared/security/audit-chain.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';

const start = { seq: 0, hash: genesis };

const eventOf = (index: number): AuditEventFacts => ({
  id: `00000000-0000-4000-8000-00000000000${index}`,
  action: 'config.risk.updated',
  actor: { type: 'user', id: 'u' },
  tenant_id: null,
  target: 't',
  payload: { index },
  request_id: 'r',
  occurred_at: '2026-01-01T00:00:00.000Z',
});

/** A chain of `length` events as it is recorded. */
function chain(length: number): Link[] {
  const links: Link[] = [];
  let previous = genesis;
  for (let seq = 1; seq <= length; seq += 1) {
    const event = eventOf(seq);
    const hash = eventHash(event, seq, previous);
    links.push({ seq, hash, event });
    previous = hash;
  }
  return links;
}

test('a chain that no one touched holds, also when it is checked in parts', () => {
  const links = chain(5);
  const whole = checkLinks(links, start);
  const half = checkLinks(links.slice(0, 3), start);
  expect(whole).toEqual({ seq: 5, hash: links[4]!.hash });
  expect(checkLinks(links.slice(3), half)).toEqual(whole);
});

describe('broken at the first link that does not hold', () => {
  test.each<[string, keyof AuditEventFacts, unknown]>([
    ['another action', 'action', 'config.risk.deleted'],
    ['another actor', 'actor', { type: 'user', id: 'somebody else' }],
    ['another payload', 'payload', { index: 7 }],
    ['another time', 'occurred_at', '2026-01-01T00:00:01.000Z'],
    ['another tenant', 'tenant_id', '00000000-0000-4000-8000-000000000000'],
  ])('%s', (_what, field, value) => {
    const links = chain(4);
    const forged = { ...links[1]!, event: { ...links[1]!.event, [field]: value } };
    const { broken } = checkLinks([links[0]!, forged, ...links.slice(2)], start);
    expect(broken).toMatchObject({ seq: 2, id: forged.event.id });
  });

  test('an event that is missing', () => {
    const links = chain(4);
    expect(checkLinks(links.toSpliced(1, 1), start).broken).toMatchObject({ seq: 2, id: null });
  });

  test('an event with a hash of its own, since the next one was made with the old hash', () => {
    const links = chain(4);
    const event = { ...links[1]!.event, payload: { index: 7 } };
    const forged = { seq: 2, event, hash: eventHash(event, 2, links[0]!.hash) };
    const { broken } = checkLinks([links[0]!, forged, ...links.slice(2)], start);
    expect(broken).toMatchObject({ seq: 3 });
  });

  test('events that changed places', () => {
    const [first, second, third] = chain(3) as [Link, Link, Link];
    const swapped = [first, { ...third, seq: 2 }, { ...second, seq: 3 }];
    expect(checkLinks(swapped, start).broken).toMatchObject({ seq: 2 });
  });
});
