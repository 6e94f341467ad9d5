import { describe, expect, test } from '@jest/globals';
import { createTickets, windowMs, type TicketFor } from '../../gateway/streams/tickets.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';

const keys = { secret_key: 'k'.repeat(32), secret_key_previous: null as string | null };
const ticketsUnder = (secretKeys: typeof keys) =>
  createTickets({ current: secretKeys } as unknown as LiveSettings);
const tickets = ticketsUnder(keys);
const now = 100 * windowMs;
const of: TicketFor = { tenant_id: 'acme', address: { service_id: 'web' } };
const headers = { authorization: 'Bearer canary', 'user-agent': 'a provider' };
const issued = (at = now): string => tickets.issue(headers, of, at)!;

test('a ticket stands for the credential that it was issued to, and shows nothing of it', () => {
  expect(tickets.open(issued(), of, now)).toEqual({ authorization: 'Bearer canary' });
  expect(issued()).not.toMatch(/canary|acme|web/);
  const byKey = tickets.issue({ ...headers, 'x-api-key': 'key' }, of, now)!;
  expect(tickets.open(byKey, of, now)).toEqual({ 'x-api-key': 'key' });
  expect(tickets.issue({ 'user-agent': 'nobody' }, of, now)).toBeUndefined();
});

test('it is the same within a window, and good until the end of the next', () => {
  const last = now + windowMs - 1;
  expect(issued(last)).toBe(issued());
  expect(issued(last + 1)).not.toBe(issued());
  expect(tickets.open(issued(), of, now + 2 * windowMs - 1)).toBeDefined();
  expect(tickets.open(issued(), of, now + 2 * windowMs)).toBeUndefined();
});

describe('it opens nothing', () => {
  test.each<[string, TicketFor]>([
    ['of another tenant', { ...of, tenant_id: 'other' }],
    ['of another service', { ...of, address: { service_id: 'api' } }],
    ['of an agent of the same name', { ...of, address: { agent_type: 'web' } }],
    ['of all services', { ...of, address: {} }],
    ['of a service and more', { ...of, address: { service_id: 'web', agent_type: 'scaler' } }],
  ])('%s', (_what, other) => {
    expect(tickets.open(issued(), other, now)).toBeUndefined();
  });

  test.each([
    ['that was altered', (ticket: string) => `${ticket.slice(0, -2)}AA`],
    ['that is none', () => 'ticket'],
    ['without a text', () => ''],
  ])('%s', (_what, change) => {
    expect(tickets.open(change(issued()), of, now)).toBeUndefined();
  });

  test('once its key is neither SECRET_KEY nor the previous one', () => {
    const next = 'n'.repeat(32);
    const rotated = ticketsUnder({ secret_key: next, secret_key_previous: keys.secret_key });
    expect(rotated.open(issued(), of, now)).toBeDefined();
    expect(
      ticketsUnder({ secret_key: next, secret_key_previous: null }).open(issued(), of, now),
    ).toBeUndefined();
  });
});
