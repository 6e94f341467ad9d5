/**
 * How a batch of events is written for its receiver, one row for each format, as
 * docs/operations/proof.md promises it. Whatever the format, the lines are those of an export, so
 * that the same programs verify them.
 */
import { createHash } from 'node:crypto';
import type { EventDestination } from '../../../shared/contracts/event-destinations.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import type { DestinationRow } from '../schema.ts';
import type { PushedCheckpoint } from '../stores/checkpoints.ts';
import type { EventBatch, PushedLine } from '../stores/event-batches.ts';

export type EventFormat = NonNullable<EventDestination['format']>;
type Addressee = Pick<DestinationRow, 'chain' | 'name'>;

/**
 * Names a batch in every attempt: the receivers' key for duplicates. One that is sent again because
 * its cursor was moved back has another name.
 */
export const batchId = (
  { chain, name, replays }: Addressee & Pick<DestinationRow, 'replays'>,
  { first_seq, last_seq, lines }: EventBatch,
): string => idOf([chain, name, replays, first_seq, last_seq, lines.at(-1)?.hash]);

/** The same in every attempt at them. */
export const checkpointsId = ({ chain, name }: Addressee, last: number): string =>
  idOf([chain, name, 'checkpoints', last]);

const idOf = (parts: readonly unknown[]): string =>
  `evt_${createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)}`;

interface Format {
  readonly contentType: string;
  readonly batch: (id: string, to: Addressee, batch: EventBatch) => string;
  readonly checkpoints: (
    id: string,
    to: Addressee,
    checkpoints: readonly PushedCheckpoint[],
  ) => string;
  /** What a test is in this format. */
  readonly test: (id: string, to: Addressee) => string;
}

const message = (type: string, id: string, data: object): string =>
  JSON.stringify({ type, id, timestamp: new Date().toISOString(), data });

/** CloudEvents 1.0 (cloudevents.io): the JSON format, in batched content mode over HTTP. */
const cloudEvent = ({ chain }: Addressee, type: string, id: string, data: object) => ({
  specversion: '1.0',
  id,
  source: chain === platformChain ? '/audit' : `/tenants/${chain}/audit`,
  type: `strata.${type}`,
  datacontenttype: 'application/json',
  data,
});

function cloudEventOf(to: Addressee, line: PushedLine): object {
  if ('skipped' in line)
    return cloudEvent(to, 'audit.skipped', `${line.from}-${line.seq}-${line.hash}`, line);
  const { id, action, target, occurred_at: time } = line;
  const subject = target === null || target === '' ? {} : { subject: target };
  return { ...cloudEvent(to, action, id, line), ...subject, time };
}

/** OCSF 1.5 (schema.ocsf.io): API Activity, whose `unmapped` has the line itself. */
const ocsfVersion = '1.5.0';
const apiActivity = { category_uid: 6, class_uid: 6003, class_name: 'API Activity' };
const other = 99;
/** How the last word of an action ends, and the activity that it is. */
const activities: readonly (readonly [RegExp, number])[] = [
  [/(?:created|added|invited|issued|started)$/, 1],
  [/(?:read|exported|verified|replayed)$/, 2],
  [/(?:updated|changed|rolled_back|replaced)$/, 3],
  [/(?:deleted|removed|revoked|erased|purged)$/, 4],
];
const userTypes = { user: 1, operator: 2, system: 3, service: 4 } as const;

interface Said {
  readonly operation: string;
  readonly uid: string;
  readonly time: number;
  readonly user: { readonly type: keyof typeof userTypes; readonly id: string };
}

function ocsf({ chain }: Addressee, { operation, uid, time, user }: Said) {
  const activity = activities.find(([ending]) => ending.test(operation))?.[1] ?? other;
  return {
    ...apiActivity,
    activity_id: activity,
    ...(activity === other && { activity_name: operation }),
    type_uid: apiActivity.class_uid * 100 + activity,
    // Informational: what of it is severe is for its reader to say.
    severity_id: 1,
    time,
    metadata: {
      version: ocsfVersion,
      uid,
      event_code: operation,
      ...(chain !== platformChain && { tenant_uid: chain }),
      log_name: 'audit',
      product: { name: 'Strata', vendor_name: 'Strata' },
    },
    actor: { user: { uid: user.id, type_id: userTypes[user.type] } },
    api: { operation },
    // The audit does not keep from which address somebody came.
    src_endpoint: { svc_name: 'strata' },
  };
}

/** What Strata says of itself. */
const ofStrata = (operation: string, uid: string): Said => ({
  operation,
  uid,
  time: Date.now(),
  user: { type: 'system', id: 'audit' },
});

function ocsfEventOf(to: Addressee, line: PushedLine): object {
  if ('skipped' in line) {
    const skipped = ocsf(to, ofStrata('audit.skipped', `${line.from}-${line.seq}-${line.hash}`));
    return { ...skipped, unmapped: line };
  }
  const { id: uid, action: operation, target, request_id: request, occurred_at: at } = line;
  const event = ocsf(to, { operation, uid, time: Date.parse(at), user: line.actor });
  const correlation = request === null ? {} : { correlation_uid: request };
  return {
    ...event,
    metadata: { ...event.metadata, sequence: line.seq, ...correlation },
    ...(target !== null && target !== '' && { resources: [{ uid: target }] }),
    unmapped: line,
  };
}

const checkpointUid = ({ chain, seq, hash }: PushedCheckpoint): string => `${chain}-${seq}-${hash}`;

export const eventFormats: Readonly<Record<EventFormat, Format>> = {
  standard: {
    contentType: 'application/json',
    batch: (id, { chain, name }, { first_seq, last_seq, head, lines }) =>
      message('audit.events', id, {
        chain,
        destination: name,
        first_seq,
        last_seq,
        head,
        events: lines,
      }),
    checkpoints: (id, { chain, name }, checkpoints) =>
      message('audit.checkpoints', id, { chain, destination: name, checkpoints }),
    test: (id, { chain, name }) => message('audit.test', id, { chain, destination: name }),
  },
  ndjson: {
    contentType: 'application/x-ndjson',
    batch: (_id, _to, { lines }) => lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    checkpoints: (_id, _to, checkpoints) =>
      checkpoints.map(({ note }) => `${JSON.stringify({ checkpoint: note })}\n`).join(''),
    test: (id, { chain, name }) => `${message('audit.test', id, { chain, destination: name })}\n`,
  },
  cloudevents: {
    contentType: 'application/cloudevents-batch+json; charset=utf-8',
    batch: (_id, to, { lines }) => JSON.stringify(lines.map((line) => cloudEventOf(to, line))),
    checkpoints: (_id, to, checkpoints) =>
      JSON.stringify(
        checkpoints.map((each) => cloudEvent(to, 'audit.checkpoint', checkpointUid(each), each)),
      ),
    test: (id, to) => JSON.stringify([cloudEvent(to, 'audit.test', id, { destination: to.name })]),
  },
  ocsf: {
    contentType: 'application/json',
    batch: (_id, to, { lines }) => JSON.stringify(lines.map((line) => ocsfEventOf(to, line))),
    checkpoints: (_id, to, checkpoints) =>
      JSON.stringify(
        checkpoints.map((each) => ({
          ...ocsf(to, ofStrata('audit.checkpoint', checkpointUid(each))),
          unmapped: each,
        })),
      ),
    test: (id, to) => JSON.stringify([ocsf(to, ofStrata('audit.test', id))]),
  },
};
