/** What happened to one's own account: sign-ins, refusals, changes of credentials. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { query, setQuery } from '../address.ts';
import { get, withQuery } from '../api.ts';
import { longJson } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Columns, Empty, Loading, ProblemBox, TableRegion, Time } from '../parts.tsx';

type Events = ResultOf<'audit.activity'>;

export function Activity(): VNode {
  const cursor = query.value.get('cursor') ?? '';
  const address = withQuery('/auth/activity', { limit: '50', cursor });
  const { data, problem, reload } = useLoaded(address, (aborted) => get<Events>(address, aborted));
  return (
    <section class="kind" aria-label="Activity">
      <h2>What happened to your account</h2>
      <p class="fine">If something here was not you, change the password and end the sessions.</p>
      <ProblemBox problem={problem} retry={reload} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty>Nothing yet.</Empty>}
      {data && data.items.length > 0 && (
        <TableRegion label="Activity">
          <table>
            <Columns titles={['When', 'What', 'Details']} />
            <tbody>
              {data.items.map((event) => (
                <tr key={event.id}>
                  <td>
                    <Time at={event.occurred_at} />
                  </td>
                  <th scope="row">
                    <code>{event.action}</code>
                  </th>
                  <td>
                    <details>
                      <summary>Details</summary>
                      <pre tabindex={0}>
                        <code>{longJson(event.payload)}</code>
                      </pre>
                    </details>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableRegion>
      )}
      <p class="paging">
        {cursor !== '' && (
          <button type="button" class="small" onClick={() => setQuery({ cursor: '' })}>
            Newest
          </button>
        )}
        {data?.next_cursor && (
          <button
            type="button"
            class="small"
            onClick={() => setQuery({ cursor: data.next_cursor! })}
          >
            Older
          </button>
        )}
      </p>
    </section>
  );
}
