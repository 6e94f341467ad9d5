/** What waits for a decision of the one who is signed in, of both kinds. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ResultOf } from '../shared/contracts/index.ts';
import { call, withQuery } from './api.ts';
import { useApprovalNews, useEvery, useLive, useLoaded } from './loading.ts';
import { user } from './session.ts';
import { ownerOf, waitsForMe, type ChangeSet } from './screens/change-sets.ts';

type Approvals = ResultOf<'notifier.approvals.list'>;
type Approval = Approvals['items'][number];

/** The newest; more than these nobody decides in a sitting. */
const mostApprovals = '200';
/** Each has all that it changes. */
const mostSets = '50';
/** Nothing says that somebody proposed something. */
const lookAgainMs = 30_000;

const read = async <T>(address: string, aborted: AbortSignal): Promise<T> =>
  (await call<T>('GET', address, { isAside: true, signal: aborted })).body;

/** Change sets to approve, and emergencies to review: of a tenant, or of the platform (''). */
export async function setsForMe(
  tenantId: string,
  aborted: AbortSignal,
): Promise<readonly ChangeSet[]> {
  const owner = ownerOf(tenantId);
  const listed = (state: string) =>
    read<{ readonly items: readonly ChangeSet[] }>(
      withQuery(owner.address, { state, limit: mostSets }),
      aborted,
    );
  const [pending, applied] = await Promise.all([listed('pending'), listed('applied')]);
  return [...pending.items, ...applied.items].filter((set) => waitsForMe(set, owner));
}

/** As far as the list says: an approval itself says who else may not decide it. */
const isForMe = ({ policy, requested_by: by }: Approval): boolean =>
  policy.allow_self || by.id !== user.value?.id;

async function approvalsForMe(tenantId: string, aborted: AbortSignal): Promise<number> {
  const address = withQuery(`/tenants/${tenantId}/approvals`, {
    state: 'pending',
    limit: mostApprovals,
  });
  return (await read<Approvals>(address, aborted)).items.filter(isForMe).length;
}

/** How many steps were taken in this tab: what waits is other than it was. */
const steps = signal(0);
export function noteStep(): void {
  steps.value += 1;
}

/** Calls `reload` when something else may wait. */
export function useWhatWaits(reload: () => void): void {
  const taken = steps.value;
  const seen = useRef(taken);
  useEffect(() => {
    if (seen.current === taken) return;
    seen.current = taken;
    reload();
  }, [taken]);
  useLive(reload);
  useEvery(lookAgainMs, reload);
}

/** How much waits; nothing where nobody is asked, or it is not known. */
export function useWaiting(tenantId: string | undefined): number {
  const { data, reload } = useLoaded(`waiting ${tenantId}`, async (aborted) => {
    if (tenantId === undefined) return 0;
    const [sets, asked] = await Promise.all([
      setsForMe(tenantId, aborted),
      tenantId === '' ? 0 : approvalsForMe(tenantId, aborted),
    ]);
    return sets.length + asked;
  });
  useApprovalNews(reload);
  useWhatWaits(reload);
  return data ?? 0;
}
