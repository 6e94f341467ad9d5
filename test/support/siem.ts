/** A receiver of events that keeps what it has accepted, as docs/operations/proof.md tells it to. */
import type { ServerResponse } from 'node:http';
import { startReceiver, type Receiver } from './receiver.ts';

export interface Line {
  readonly seq: number;
  readonly hash: string;
  readonly previous: string | null;
  readonly from?: number;
  readonly skipped?: string;
  readonly action?: string;
  readonly tenant_id?: string | null;
}
export interface Batch {
  readonly chain: string;
  readonly destination: string;
  readonly first_seq: number;
  readonly last_seq: number;
  readonly head: { readonly seq: number; readonly hash: string };
  readonly events: readonly Line[];
}
/** What it does with a batch; undefined takes it. */
export type Refuse = (
  batch: Batch,
  text: string,
) => number | ((response: ServerResponse) => void) | undefined;

export interface Siem {
  readonly receiver: Receiver;
  /** What it has accepted: a batch takes the place of what it has from `first_seq` on. */
  lines: Line[];
  refuse: Refuse;
  readonly batches: () => Batch[];
}

export async function startSiem(port = 0): Promise<Siem> {
  const receiver = await startReceiver(
    (n, response) => {
      const { body, text } = receiver.received[n]!;
      const batch = body?.data as Batch;
      const isOfChain = body?.type === 'audit.events' || body?.type === 'audit.checkpoints';
      const refused = isOfChain ? made.refuse(batch, text) : undefined;
      if (typeof refused === 'function') return refused(response);
      if (refused === undefined && body?.type === 'audit.events')
        made.lines = [...made.lines.filter(({ seq }) => seq < batch.first_seq), ...batch.events];
      response.writeHead(refused ?? 204).end();
    },
    undefined,
    port,
  );
  const made: Siem = {
    receiver,
    lines: [],
    refuse: () => undefined,
    batches: () => receiver.received.map(({ body }) => body.data as Batch),
  };
  return made;
}
