/**
 * Verifies an exported audit chain without asking anybody: `audit verify --file`. What it proves is
 * that the file is one unbroken chain; that nothing is missing at its end says the head, compared
 * with that of `audit verify`, or with the statement of a cut.
 */
import { readFileSync } from 'node:fs';
import type { ResultOf } from '../shared/contracts/index.ts';
import {
  auditChainOf,
  checkLinks,
  eventsPurgedAction,
  genesis,
  type Attested,
  type Link,
} from '../shared/security/audit-chain.ts';
import { isObject } from '../shared/schema/json-pointer.ts';
import { Misused } from './command.ts';

type Line = ResultOf<'audit.export'>['items'][number];
type Exported = Exclude<Line, { skipped: unknown }>;

function eventsIn(file: string): Exported[] {
  const lines = readFileSync(file === '-' ? 0 : file, 'utf8').split('\n');
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return [];
    const problem = `line ${index + 1} of ${file} is no event of an export of a whole chain`;
    let parsed: unknown;
    try {
      parsed = JSON.parse(line);
    } catch {
      throw new Misused(problem);
    }
    if (!isExported(parsed)) throw new Misused(problem);
    return [parsed];
  });
}

/** Has what a link of the chain is found by; its hash proves the rest. */
const isExported = (line: unknown): line is Exported =>
  isObject(line) &&
  Number.isSafeInteger(line.seq) &&
  typeof line.hash === 'string' &&
  isObject(line.actor);

/** What later events of the chain tell of those whose values were purged, by number. */
const attestedIn = (events: readonly Exported[]): ReadonlyMap<number, Attested> =>
  new Map(
    events
      .filter(({ action }) => action === eventsPurgedAction)
      .flatMap(({ payload }) => {
        const { links } = payload as { readonly links: Readonly<Record<string, Attested>> };
        return Object.entries(links).map(([seq, attested]) => [Number(seq), attested] as const);
      }),
  );

/**
 * `after` is the hash before the first event, as the statement of a cut has it; the beginning of the
 * chain by default. Throws Misused for what is no export of one chain.
 */
export function verifyFile(file: string, after: string | undefined) {
  const events = eventsIn(file);
  const [first] = events;
  if (!first) throw new Misused(`${file} has no event`);
  const chain = auditChainOf(first);
  const stranger = events.find((event) => auditChainOf(event) !== chain);
  if (stranger)
    throw new Misused(`${file} has events of ${chain} and of ${auditChainOf(stranger)}`);
  if (first.seq !== 1 && after === undefined)
    throw new Misused(
      `${file} begins with number ${first.seq}: --after needs the hash before it, as the statement of the cut has it`,
    );
  const attested = attestedIn(events);
  const links = events.map(
    ({ seq, hash, previous: _said, actor: { name: _name, ...actor }, ...facts }): Link => {
      const attestation = attested.get(seq);
      return {
        seq,
        hash,
        event: { ...facts, actor },
        ...(attestation && { attested: attestation }),
      };
    },
  );
  const from = { seq: first.seq - 1, hash: after ?? genesis };
  const { seq, hash, broken } = checkLinks(links, from);
  return {
    chain,
    events: events.length,
    head: String(seq),
    head_hash: hash,
    ...(broken && { broken_at: broken.seq, problem: broken.problem }),
  };
}
