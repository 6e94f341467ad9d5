/**
 * How a batch of events is written for its receiver, one row for each format, as
 * docs/operations/proof.md promises it. Whatever the format, the lines are those of an export, so
 * that the same programs verify them.
 */
import { createHash } from 'node:crypto';
import type { EventDestination } from '../../../shared/contracts/event-destinations.ts';
import type { DestinationRow } from '../schema.ts';
import type { EventBatch, PushedLine } from '../stores/event-batches.ts';

export type EventFormat = NonNullable<EventDestination['format']>;
type Addressee = Pick<DestinationRow, 'chain' | 'name'>;

/**
 * Names a batch in every attempt: the receivers' key for duplicates. One that is sent again because
 * its cursor was moved back has another name.
 */
export function batchId(
  { chain, name, replays }: Addressee & Pick<DestinationRow, 'replays'>,
  { first_seq, last_seq, lines }: EventBatch,
): string {
  const parts = [chain, name, replays, first_seq, last_seq, lines.at(-1)?.hash];
  return `evt_${createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)}`;
}

interface Format {
  readonly contentType: string;
  readonly batch: (id: string, to: Addressee, batch: EventBatch) => string;
  /** What a test is in this format. */
  readonly test: (id: string, to: Addressee) => string;
}

const message = (type: string, id: string, data: object): string =>
  JSON.stringify({ type, id, timestamp: new Date().toISOString(), data });

/** CloudEvents 1.0 (cloudevents.io): the JSON format, in batched content mode over HTTP. */
const cloudEvent = ({ chain }: Addressee, type: string, id: string, data: object) => ({
  specversion: '1.0',
  id,
  source: `/tenants/${chain}/audit`,
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
    test: (id, { chain, name }) => message('audit.test', id, { chain, destination: name }),
  },
  ndjson: {
    contentType: 'application/x-ndjson',
    batch: (_id, _to, { lines }) => lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    test: (id, { chain, name }) => `${message('audit.test', id, { chain, destination: name })}\n`,
  },
  cloudevents: {
    contentType: 'application/cloudevents-batch+json; charset=utf-8',
    batch: (_id, to, { lines }) => JSON.stringify(lines.map((line) => cloudEventOf(to, line))),
    test: (id, to) => JSON.stringify([cloudEvent(to, 'audit.test', id, { destination: to.name })]),
  },
};
