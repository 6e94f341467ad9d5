/** Commands about the audit. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { Misused, type Command, type FlagValue } from '../command.ts';
import type { Session } from '../session.ts';
import { throughOutages } from '../outages.ts';
import { columns, jsonLine, printableLine } from '../output.ts';
import { allItems, itemsOf } from '../pages.ts';
import { checkpoints, verifyAgainst } from './audit-checkpoints.ts';
import { countOf, eventNumberOf, given, platformWord, textOf } from '../typed.ts';
import { verifyFile } from '../verify-file.ts';

type Event = ResultOf<'audit.events.list'>['items'][number];
type Proof = ResultOf<'audit.verify'>['chains'][number];
type Filter = ParamsOf<'audit.events.list'>;

const mostInPage = 200;

const minuteMs = 60_000;
const followMs = 1000;
/** An event may be recorded this much later than it happened, so following looks back. */
const lateMs = 10_000;
/** How far following looks back at most, so that what it reads each second stays short. */
const lookBackMs = minuteMs;

const lineOf = ({ occurred_at, action, actor, tenant_id, target, request_id }: Event): string =>
  printableLine(
    [
      occurred_at,
      action,
      `${actor.type}:${actor.name ?? actor.id}`,
      tenant_id ?? 'platform',
      target ?? '-',
      request_id ?? '-',
    ].join('  '),
  );

/** The newest events, at most `limit` of them, oldest first. */
async function newestEvents(session: Session, filter: Filter, limit: number): Promise<Event[]> {
  const found: Event[] = [];
  let cursor: string | null | undefined;
  do {
    const params = { ...filter, order: 'desc', limit: Math.min(limit - found.length, mostInPage) };
    const page = await session.call('audit.events.list', given({ ...params, cursor }));
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null && found.length < limit);
  return found.toReversed();
}

/**
 * Reads events since a moment, oldest first. It may be called with later and later moments, and
 * gives each event once.
 */
function newEvents(session: Session, filter: Filter, shown: readonly Event[], signal: AbortSignal) {
  let seen = new Set(shown.map(({ id }) => id));
  return async (since: number): Promise<Event[]> => {
    const params = { ...filter, since: new Date(since).toISOString() };
    const read = await allItems(session, 'audit.events.list', params, signal);
    const found = read.filter(({ id }) => !seen.has(id));
    // What a later moment can bring again is among what this one has brought.
    seen = new Set(read.map(({ id }) => id));
    return found;
  };
}

const tail: Command = {
  name: 'audit tail',
  parameters: '',
  summary: 'the newest audit events: time, action, actor, tenant, target, request',
  flags: {
    tenant: { type: 'string', summary: 'only this tenant' },
    actor: { type: 'string', summary: 'only this actor, by id or e-mail address' },
    action: { type: 'string', summary: 'only actions that begin so: tenant.member' },
    target: { type: 'string', summary: 'only what was done to this' },
    minutes: { type: 'string', summary: 'how far back, 60 by default' },
    limit: { type: 'string', summary: 'how many, 20 by default' },
    follow: { type: 'boolean', summary: 'continue until Ctrl-C' },
  },
  async run({ session, flags, print, signal }) {
    const filter = given({
      tenant_id: textOf(flags.tenant),
      actor: textOf(flags.actor),
      action: textOf(flags.action),
      target: textOf(flags.target),
    });
    const began = Date.now();
    const since = new Date(began - countOf(flags.minutes, 60) * minuteMs).toISOString();
    const limit = countOf(flags.limit, 20);
    const newest = await newestEvents(session, { ...filter, since }, limit);
    const show = (event: Event): void => print(flags.json ? jsonLine(event) : lineOf(event));
    for (const event of newest) show(event);

    // What is older than the lines shown was left out on purpose.
    const [oldest] = newest.length < limit ? [] : newest;
    const from = Math.max(began - lateMs, oldest ? Date.parse(oldest.occurred_at) : 0);
    const eventsSince = newEvents(session, filter, newest, signal);
    // Of the last question that was answered: what happened in an outage is shown after it.
    let askedAt = Date.now();
    while (flags.follow && !signal.aborted) {
      await delay(followMs, undefined, { signal }).catch(() => {});
      const now = Date.now();
      const since = Math.max(from, askedAt - lookBackMs);
      const found = await throughOutages(() => eventsSince(since), { signal });
      askedAt = now;
      for (const event of found) show(event);
    }
  },
};

const verify: Command = {
  name: 'audit verify',
  parameters: '',
  summary: 'prove the audit chains, chunk by chunk; ends with 1 where one is broken',
  flags: {
    tenant: { type: 'string', summary: 'only this tenant' },
    file: { type: 'string', summary: 'an export instead, without asking Strata; - is stdin' },
    after: { type: 'string', summary: 'the hash before its first event, where the chain was cut' },
    checkpoint: {
      type: 'string',
      summary: 'a file of kept checkpoints: computes all hashes here, without trusting the server',
    },
    key: { type: 'string', multiple: true, summary: 'the verifier key of the checkpoints' },
  },
  async run(input) {
    const { session, flags, answer, signal } = input;
    const checkpointFile = textOf(flags.checkpoint);
    if (checkpointFile !== undefined) return verifyAgainst(checkpointFile, input);
    const file = textOf(flags.file);
    if (file !== undefined) {
      const proof = verifyFile(file, textOf(flags.after));
      answer(proof, () => columns([proof]));
      if (proof.problem !== undefined)
        throw new Error('The chain is broken; broken_at says where.');
      return;
    }
    const filter = given({ tenant_id: textOf(flags.tenant) });
    const proofs = new Map<string, Proof>();
    let cursor: string | null | undefined;
    do {
      const chunk = await session.call('audit.verify', given({ ...filter, cursor }));
      for (const proof of chunk.chains) proofs.set(proof.tenant_id ?? 'platform', proof);
      cursor = chunk.next_cursor;
    } while (cursor !== null && !signal.aborted);

    const rows = [...proofs].map(
      ([chain, { events, head, cut, erased_at, waits_at, broken_at }]) => ({
        chain,
        events,
        head,
        ...(cut !== undefined && { cut_at: cut.seq }),
        ...(erased_at !== undefined && { erased_at }),
        ...(waits_at !== undefined && { waits_at: waits_at.event_id }),
        ...(broken_at && { broken_at: broken_at.seq, problem: broken_at.problem }),
      }),
    );
    answer(rows, () => columns(rows));
    if (rows.some(({ broken_at }) => broken_at !== undefined))
      throw new Error('A chain is broken; broken_at says where.');
    if (cursor !== null) throw new Error('Stopped before everything was verified.');
  },
};

/** Whose chain is meant: the actions take no tenant for the platform's own. */
const chainFlag = {
  tenant: { type: 'string', summary: `whose chain, by name or id, or ${platformWord}` },
} as const;
const chainOf = (flag: FlagValue): string | undefined =>
  flag === platformWord ? undefined : textOf(flag);

const exportCommand: Command = {
  name: 'audit export',
  parameters: '',
  summary: 'a chain from its beginning, in its order, as lines of JSON to be kept elsewhere',
  flags: {
    ...chainFlag,
    before: { type: 'string', summary: 'only up to this time, such as 2027-01-31T18:00:00Z' },
    after: { type: 'string', summary: 'only after this number, which a receiver has already' },
    action: { type: 'string', summary: 'only this action, or those that begin so: config.*' },
  },
  async run({ session, flags, print, signal }) {
    const after = textOf(flags.after);
    const filter = given({
      tenant_id: chainOf(flags.tenant),
      before: textOf(flags.before),
      after: after === undefined ? undefined : eventNumberOf(after),
      action: textOf(flags.action),
    });
    const stopped = 'Stopped before the end of the chain.';
    for await (const event of itemsOf(session, 'audit.export', filter, signal, stopped))
      print(jsonLine(event));
  },
};

const cut: Command = {
  name: 'audit cut',
  parameters: '<seq> <hash>',
  summary:
    'remove what was exported, up to the event of this number and hash; answers the signed statement in its place',
  flags: chainFlag,
  async run({ session, args: { seq, hash }, flags, answer }) {
    if (!/^[1-9][0-9]{0,14}$/.test(seq!)) throw new Misused(`${seq} is not the number of an event`);
    const body = given({ tenant_id: chainOf(flags.tenant), seq: Number(seq), hash });
    answer(await session.call('audit.cut', { body }));
  },
};

const waiting: Command = {
  name: 'audit waiting',
  parameters: '',
  summary: 'chains that wait, because the audit does not accept their next event',
  async run({ session, answer, signal }) {
    const items = await allItems(session, 'audit.waiting.list', {}, signal);
    const rows = items.map(({ tenant_id, ...item }) => ({
      chain: tenant_id ?? 'platform',
      ...item,
    }));
    answer(rows, () => columns(rows));
  },
};

const retry: Command = {
  name: 'audit retry',
  parameters: '',
  summary: 'try chains that wait again now; all of them without --tenant',
  flags: chainFlag,
  async run({ session, flags, answer }) {
    const tenant = flags.tenant === platformWord ? null : textOf(flags.tenant);
    const body = tenant === undefined ? {} : { tenant_id: tenant };
    answer(await session.call('audit.waiting.retry', { body }));
  },
};

export const auditCommands: readonly Command[] = [
  tail,
  verify,
  checkpoints,
  exportCommand,
  cut,
  waiting,
  retry,
];
