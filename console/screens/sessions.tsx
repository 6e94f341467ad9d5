/** Where one is signed in, and ending that. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { useList } from '../loading.ts';
import { RowButton, Table, Waiting } from '../lists.tsx';
import { Button, State, Time } from '../inline.tsx';
import { renew, tokens } from '../session.ts';

type Session = ResultOf<'auth.sessions.list'>['items'][number];

const address = '/auth/sessions';

/** Such as "Chrome on Linux"; the text itself where that is another one. */
function deviceOf(userAgent: string | null): string {
  if (userAgent === null || userAgent === '') return 'Unknown';
  const browsers = [
    ['Edg/', 'Edge'],
    ['OPR/', 'Opera'],
    ['Firefox/', 'Firefox'],
    ['Chrome/', 'Chrome'],
    ['Safari/', 'Safari'],
  ] as const;
  const systems = [
    ['Android', 'Android'],
    ['iPhone', 'iPhone'],
    ['iPad', 'iPad'],
    ['Windows', 'Windows'],
    ['Mac OS X', 'macOS'],
    ['Linux', 'Linux'],
  ] as const;
  const [, browser] = browsers.find(([mark]) => userAgent.includes(mark)) ?? [];
  const [, system] = systems.find(([mark]) => userAgent.includes(mark)) ?? [];
  if (browser === undefined)
    return userAgent.length > 60 ? `${userAgent.slice(0, 59)}…` : userAgent;
  return system === undefined ? browser : `${browser} on ${system}`;
}

const nameOfTenant = (id: string | null): string =>
  tokens.value?.memberships.find(({ tenant_id: each }) => each === id)?.name ?? 'no tenant';

export function Sessions(): VNode {
  const { data, problem, reload } = useList<Session>(address);
  const [ended, setEnded] = useState<Session | 'all'>();
  const close = (): void => setEnded(undefined);
  const endOne = async (id: string): Promise<void> => {
    await call('DELETE', `${address}/${id}`);
    close();
    reload();
  };
  const endAll = async (): Promise<void> => {
    await call('POST', '/auth/logout', { body: { all: true } });
    close();
    await renew();
  };
  return (
    <section class="kind" aria-label="Sessions">
      <div class="heading">
        <h2>Where you are signed in</h2>
        {data && <span class="fine number">{data.length}</span>}
        <span class="grow"></span>
        <Button class="small" says="Sign out everywhere…" onClick={() => setEnded('all')} />
      </div>
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Sessions"
        look="lines"
        items={data}
        columns={[
          ['Device', ({ user_agent: agent }) => <bdi title={agent ?? ''}>{deviceOf(agent)}</bdi>],
          ['Network', ({ ip }) => ip ?? <span class="muted">–</span>],
          [{ wide: 'Tenant' }, ({ tenant_id: id }) => <bdi>{nameOfTenant(id)}</bdi>],
          [{ wide: 'Signed in' }, ({ created_at: at }) => <Time at={at} />],
          ['Last used', ({ last_used_at: at }) => <Time at={at} />],
          [
            { unseen: 'Actions' },
            (session) =>
              session.current ? (
                <State state="active" says="this one" />
              ) : (
                <RowButton
                  says="End…"
                  of={`the session of ${deviceOf(session.user_agent)}, ${session.ip ?? ''}`}
                  onClick={() => setEnded(session)}
                />
              ),
          ],
        ]}
      />
      {ended === 'all' && (
        <FormDialog
          title="Sign out everywhere"
          verb="Sign out everywhere"
          isDangerous
          work={endAll}
          onClose={close}
        >
          <p>Every session ends, this one included. API keys stay: end them under “API keys”.</p>
        </FormDialog>
      )}
      {ended !== undefined && ended !== 'all' && (
        <FormDialog
          title="End a session"
          verb="End it"
          isDangerous
          work={() => endOne(ended.id)}
          onClose={close}
        >
          <p>
            <bdi>{deviceOf(ended.user_agent)}</bdi> has to sign in again, within a second.
          </p>
        </FormDialog>
      )}
    </section>
  );
}
