/**
 * The audit's record as a whole: the proof that nobody changed it, a copy of it that is kept
 * elsewhere, and cutting off what is kept there.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { tenantShown } from '../address.ts';
import { useAction } from '../action.ts';
import { call, get, withQuery, type Page } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { saveLines } from '../files.ts';
import { useList } from '../loading.ts';
import { Button, Time, Who } from '../inline.tsx';
import { ProblemBox, Section } from '../parts.tsx';
import { isPlatformAdmin } from '../session.ts';
import { Field, Form, Select } from '../fields.tsx';

type Proof = ResultOf<'audit.verify'>;

type Chain = Proof['chains'][number];

interface Verdict {
  /** Null while it is being proved. */
  readonly valid: boolean | null;
  readonly events: number;
  readonly head: string | null;
  readonly broken: Chain | undefined;
  /** Chains of which the beginning is no more. */
  readonly cut: readonly Chain[];
}

/**
 * The whole record, chunk by chunk. `onProgress` is called after each chunk. Stops where a link is broken.
 */
async function proof(tenantId: string, onProgress: (verdict: Verdict) => void): Promise<void> {
  let cursor: string | null = null;
  /** A long chain comes in several chunks; the last one counts all of it. */
  const chains = new Map<string | null, Chain>();
  do {
    const address: string = withQuery('/audit/verify', {
      tenant_id: tenantId,
      cursor: cursor ?? undefined,
    });
    const chunk: Proof = await get<Proof>(address);
    for (const chain of chunk.chains) chains.set(chain.tenant_id, chain);
    const all = [...chains.values()];
    onProgress({
      valid: chunk.valid,
      events: all.reduce((sum, { events }) => sum + events, 0),
      head: all.length === 1 ? all[0]!.head : null,
      broken: all.find(({ broken_at: at }) => at !== undefined),
      cut: all.filter(({ cut }) => cut !== undefined),
    });
    cursor = chunk.valid === false ? null : chunk.next_cursor;
  } while (cursor !== null);
}

export function Verify(): VNode {
  const [verdict, setVerdict] = useState<Verdict>();
  const { isBusy, problem, run } = useAction();
  const begin = (): void => {
    setVerdict(undefined);
    void run(() => proof(tenantShown.value, setVerdict));
  };
  return (
    <div class="proof">
      <p>
        Every event carries the hash of the previous one, so no one can change, remove or insert one
        unseen. <Button class="small" says="Verify the record" isBusy={isBusy} onClick={begin} />
      </p>
      <ProblemBox problem={problem} retry={begin} />
      <div role="status">{verdict && <Says verdict={verdict} />}</div>
    </div>
  );
}

function Says({ verdict }: { readonly verdict: Verdict }): VNode {
  const { valid, events, head, broken, cut } = verdict;
  const count = events.toLocaleString();
  if (broken?.broken_at) {
    const { seq, problem } = broken.broken_at;
    return (
      <p class="problem">
        <strong>The record is broken at event {seq}:</strong> {problem}. The {count} before it hold.
      </p>
    );
  }
  if (valid !== true) return <p class="notice">{count} events hold so far…</p>;
  return (
    <div class="notice">
      <p>
        <strong>The record is whole.</strong> All {count} events hold.
        {head !== null && (
          <span class="fine">
            Last hash <code>{head}</code>
          </span>
        )}
      </p>
      {cut.slice(0, mostNamed).map((chain) => (
        <CutOff key={chain.tenant_id} chain={chain} />
      ))}
      {cut.length > mostNamed && (
        <p class="fine">and {cut.length - mostNamed} more chains were cut.</p>
      )}
    </div>
  );
}

const mostNamed = 10;

const CutOff = ({ chain: { tenant_id: tenantId, cut } }: { readonly chain: Chain }): VNode => (
  <p class="fine">
    {tenantId === null ? (
      'Of the platform'
    ) : (
      <span>
        Of <Who id={tenantId} />
      </span>
    )}{' '}
    the events until number <span class="number">{cut?.seq}</span> were cut off{' '}
    <Time at={cut?.cut_at} />; a signed statement is in their place.
  </p>
);

type Exported = ResultOf<'audit.export'>['items'][number];
type Tenant = ResultOf<'tenant-config.tenants.list'>['items'][number];

/** The last event of a file, by which a chain is cut. */
interface Saved {
  /** Whose chain it is; empty for the platform. */
  readonly tenantId: string;
  readonly count: number;
  readonly seq: number;
  readonly hash: string;
  readonly isAll: boolean;
}

/** As many as a page keeps at once; the next file begins where this one was cut. */
const mostInFile = 20_000;

/** The events of a list of the API, one a line (NDJSON), with hashes that prove them. */
export async function linesOf<Item>(address: string, onProgress: (count: number) => void) {
  const lines: string[] = [];
  let last: Item | undefined;
  let cursor: string | null = null;
  do {
    const asked = withQuery(address, { limit: '200', cursor: cursor ?? undefined });
    const page: Page<Item> = await get<Page<Item>>(asked);
    lines.push(...page.items.map((event) => `${JSON.stringify(event)}\n`));
    last = page.items.at(-1) ?? last;
    onProgress(lines.length);
    cursor = page.next_cursor;
  } while (cursor !== null && lines.length < mostInFile);
  return { lines, last, isAll: cursor === null };
}

/** Undefined where nothing is from before that moment. */
async function saveChain(
  tenantId: string,
  before: string,
  onProgress: (count: number) => void,
): Promise<Saved | undefined> {
  const address = withQuery('/audit/export', { tenant_id: tenantId, before });
  const { lines, last, isAll } = await linesOf<Exported>(address, onProgress);
  if (!last) return undefined;
  saveLines(`audit-until-${last.seq}`, lines);
  return { tenantId, count: lines.length, seq: last.seq, hash: last.hash, isAll };
}

/** The platform has a choice of chains: each tenant has one, and itself. */
export function KeepElsewhere(): VNode {
  const [chain, setChain] = useState(tenantShown.value);
  const [before, setBefore] = useState('');
  const [soFar, setSoFar] = useState<number>();
  const [saved, setSaved] = useState<Saved | 'nothing'>();
  const [cutting, setCutting] = useState<Saved>();
  const [isCut, setCut] = useState(false);
  const { isBusy, problem, run } = useAction();
  const forget = (): void => {
    setSaved(undefined);
    setCut(false);
  };
  const choose = (id: string): void => {
    setChain(id);
    forget();
  };
  const begin = (): void => {
    forget();
    const until = before === '' ? '' : new Date(before).toISOString();
    void run(async () => setSaved((await saveChain(chain, until, setSoFar)) ?? 'nothing'));
  };
  const cut = async ({ tenantId, seq, hash }: Saved): Promise<void> => {
    const body = { tenant_id: tenantId === '' ? null : tenantId, seq, hash };
    await call('POST', '/audit/cut', { body });
    setCutting(undefined);
    setCut(true);
  };
  return (
    <Section class="kind" title="Archive">
      <p class="fine">
        The whole record in its order, from its beginning, with what every hash is over: who has the
        file can prove it without Strata.
      </p>
      <Form class="question keep" onSend={begin}>
        {tenantShown.value === '' && <ChainChoice chain={chain} onChoose={choose} />}
        <Field
          label="Before"
          type="datetime-local"
          name="before"
          value={before}
          onValue={(typed) => {
            setBefore(typed);
            forget();
          }}
        />
        <p>
          <Button type="submit" class="secondary" says="Export the record" isBusy={isBusy} />
        </p>
      </Form>
      <ProblemBox problem={problem} />
      <div role="status">
        {isBusy && soFar !== undefined && <p class="fine">{soFar.toLocaleString()} events…</p>}
        {saved === 'nothing' && <p class="notice">There is nothing from before that.</p>}
        {saved !== undefined && saved !== 'nothing' && <InTheFile saved={saved} />}
        {isCut && (
          <p class="notice">
            <strong>They were cut off.</strong> The signed statement is in the audit of the
            platform.
          </p>
        )}
      </div>
      {saved !== undefined && saved !== 'nothing' && isPlatformAdmin.value && !isCut && (
        <p>
          <Button
            class="small danger"
            says="Cut off what was exported…"
            onClick={() => setCutting(saved)}
          />
        </p>
      )}
      {cutting && (
        // Nothing brings back what was cut off but the file, so whoever cuts says that they have it.
        <FormDialog
          title="Cut off what was exported"
          verb="Cut it off"
          isDangerous
          work={() => cut(cutting)}
          onClose={() => setCutting(undefined)}
        >
          <p>
            The events until number <strong class="number">{cutting.seq}</strong> are removed for
            good. A signed statement takes their place, and later events are proved from there on.
            See first that the file is where you keep evidence.
          </p>
          <label class="check">
            <input type="checkbox" name="kept" required />
            <span>The file is kept, and can be read</span>
          </label>
        </FormDialog>
      )}
    </Section>
  );
}

const InTheFile = ({ saved: { count, seq, hash, isAll } }: { readonly saved: Saved }): VNode => (
  <div class="notice">
    <p>
      <strong>{count.toLocaleString()} events are in the file</strong>, the last is number{' '}
      <span class="number">{seq}</span>.
      {!isAll && ' There are more: cut these off, or export the rest by the command line.'}
    </p>
    <p class="fine">
      Its hash <code>{hash}</code>
    </p>
  </div>
);

function ChainChoice({
  chain,
  onChoose,
}: {
  /** Empty for that of the platform. */
  readonly chain: string;
  readonly onChoose: (id: string) => void;
}): VNode {
  const { data } = useList<Tenant>('/tenants');
  return (
    <Select
      label="Whose"
      name="chain"
      value={chain}
      options={[
        { value: '', title: 'the platform' },
        ...(data ?? []).map(({ id, name }) => ({ value: id, title: name })),
      ]}
      onValue={onChoose}
    />
  );
}
