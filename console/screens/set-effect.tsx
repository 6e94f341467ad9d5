/**
 * What a change set would do, tried as it is asked for: for every tenant, where it is the
 * platform's; to effective values, where it is a tenant's. For those who may try its writes.
 */
import type { VNode } from 'preact';
import { call } from '../api.ts';
import { Waiting } from '../lists.tsx';
import { useLoaded } from '../loading.ts';
import { Strong } from '../inline.tsx';
import { Empty } from '../parts.tsx';
import { changesValue, EffectOf } from './effect.tsx';
import { BlastRadius, LimitsEffect } from './impact.tsx';
import { documentAt, mayWrite } from './document-kinds.ts';
import type { ChangeSet, Owner } from './change-sets.ts';
import type { Effect as Tried } from './review.tsx';
import { trialAddress } from './trial.ts';

type Item = ChangeSet['items'][number];

/** Whose trial says more than what changes in the document, and what it is asked for. */
const showsValues: readonly string[] = ['risk', 'agents', 'services'];

/** What is not shown where its documents hold secrets cannot be sent. */
const isKnown = ({ action, body }: Item): boolean => action === 'delete' || body !== undefined;

async function tryPlatform(items: readonly Item[], aborted: AbortSignal): Promise<Tried[]> {
  const body = {
    items: items.map(({ action, path, body: sent }) => ({
      action,
      path,
      ...(sent !== undefined && { body: sent }),
    })),
    limit: 50,
  };
  return [(await call<Tried>('POST', '/config/plan', { body, signal: aborted })).body];
}

const tryTenant = (items: readonly Item[], owner: Owner, aborted: AbortSignal) =>
  Promise.all(
    items.map(async ({ action, path, body }) => {
      const { kind } = documentAt(path, owner.kinds)!;
      const { hasImpact = false } = kind;
      const address = trialAddress(path, { hasImpact, ...(!hasImpact && { context: {} }) });
      const sending = { ...(body !== undefined && { body }), signal: aborted };
      return (await call<Tried>(action.toUpperCase(), address, sending)).body;
    }),
  );

export function EffectOfSet({
  set,
  owner,
}: {
  readonly set: ChangeSet;
  readonly owner: Owner;
}): VNode | null {
  const isPlatform = owner.tenantId === '';
  const items = set.items.filter((item) => {
    const kind = documentAt(item.path, owner.kinds)?.kind;
    const isShown = kind?.hasImpact || showsValues.includes(kind?.name ?? '');
    return kind !== undefined && isKnown(item) && isShown && mayWrite(kind);
  });
  return items.length === 0 ? null : (
    <Effect
      items={items}
      owner={owner}
      digest={set.digest}
      hasOthers={isPlatform && items.length < set.items.length}
    />
  );
}

function Effect({
  items,
  owner,
  digest,
  hasOthers,
}: {
  readonly items: readonly Item[];
  readonly owner: Owner;
  readonly digest: string;
  readonly hasOthers: boolean;
}): VNode {
  const { data, problem, reload } = useLoaded(digest, (aborted) =>
    owner.tenantId === '' ? tryPlatform(items, aborted) : tryTenant(items, owner, aborted),
  );
  const values = data?.flatMap(({ effective = [] }) => effective.filter(changesValue)) ?? [];
  const limits = data?.flatMap(({ over_time: overTime }) => overTime ?? []) ?? [];
  const impacts = data?.filter(({ impact }) => impact !== undefined) ?? [];
  return (
    <section aria-label="What it does">
      <h2>What it does, as things are now</h2>
      <Waiting data={data} problem={problem} retry={reload} />
      {values.map((change) => (
        <p key={change.key}>
          <Strong>{change.key}</Strong>: <EffectOf change={change} />
        </p>
      ))}
      {data && values.length === 0 && impacts.length === 0 && limits.length === 0 && (
        <Empty>No effective value changes, with no agent and no service asked for.</Empty>
      )}
      {impacts.map(({ impact, complete }, index) => (
        <BlastRadius key={index} impact={impact!} isComplete={complete ?? true} />
      ))}
      {limits.map((overTime, index) => (
        <LimitsEffect key={index} overTime={overTime} />
      ))}
      {hasOthers && <p class="fine">A policy is no part of this.</p>}
    </section>
  );
}
