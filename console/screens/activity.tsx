/** What happened to one's own account: sign-ins, refusals, changes of credentials. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { parameter } from '../address.ts';
import { withQuery } from '../api.ts';
import { longJson } from '../format.ts';
import { useGet } from '../loading.ts';
import { Pager, Table, Waiting } from '../lists.tsx';
import { Time } from '../inline.tsx';
import { TextBlock } from '../parts.tsx';

type Events = ResultOf<'audit.activity'>;

export function Activity(): VNode {
  const cursor = parameter('cursor');
  const { data, problem, reload } = useGet<Events>(
    withQuery('/auth/activity', { limit: '50', cursor }),
  );
  return (
    <section class="kind" aria-label="Activity">
      <h2>What happened to your account</h2>
      <p class="fine">If something here was not you, change the password and end the sessions.</p>
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Activity"
        items={data?.items}
        empty="Nothing yet."
        nameAt={1}
        columns={[
          ['When', ({ occurred_at: at }) => <Time at={at} />],
          ['What', ({ action }) => <code>{action}</code>],
          [
            'Details',
            ({ payload }) => (
              <details>
                <summary>Details</summary>
                <TextBlock text={longJson(payload)} />
              </details>
            ),
          ],
        ]}
      />
      <Pager cursor={cursor} next={data?.next_cursor} />
    </section>
  );
}
