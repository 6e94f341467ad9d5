/**
 * The nodes of the cluster: what this gateway says of its needs, and a reload, which is tried on
 * all of them first.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { call, Problem, send } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { localTime } from '../format.ts';
import { lookAgainMs, useEvery, useLoaded, useGet } from '../loading.ts';
import { isObject } from '../../shared/schema/json-pointer.ts';
import { Table } from '../lists.tsx';
import { Below, Button, Code, State, Time } from '../inline.tsx';
import { Fact, Heading, Loading, ProblemBox, Section } from '../parts.tsx';
import { Form } from '../fields.tsx';

type Reload = ResultOf<'cluster.reload'>;
type Node = ResultOf<'cluster.nodes'>['items'][number];
type Backlog = NonNullable<ResultOf<'cluster.nodes'>['backlog']>;
type Readiness = Readonly<Record<string, unknown>>;

/** A trial of a reload is answered by every node. */
async function tryReload(body: object, aborted: AbortSignal): Promise<Reload> {
  const sending = { body: { ...body, dry_run: true }, signal: aborted };
  const answer = await call<Reload>('POST', '/config/reload', sending);
  return answer.body;
}

/** 503 says the same of a gateway that can serve nothing. */
async function readiness(aborted: AbortSignal): Promise<Readiness> {
  try {
    const { body } = await send<Readiness>('GET', '/readyz', { signal: aborted });
    return body;
  } catch (error) {
    if (error instanceof Problem && error.status === 503) return { status: 'unavailable' };
    throw error;
  }
}

export function Nodes(): VNode {
  const nodes = useGet<ResultOf<'cluster.nodes'>>('/config/nodes');
  const settings = useLoaded('settings', (aborted) => tryReload({ reload_env: true }, aborted));
  const ready = useLoaded('readiness', readiness);
  const again = (): void => {
    nodes.reload();
    settings.reload();
    ready.reload();
  };
  useEvery(lookAgainMs, nodes.reload);
  const { data } = nodes;
  return (
    <section>
      <Heading title="Nodes">
        {data && <p class="fine">As of {localTime(data.at)}</p>}
        <span class="grow"></span>
        <Button class="small" says="Refresh" aria-busy={nodes.isBusy} onClick={again} />
      </Heading>
      <ProblemBox problem={nodes.problem ?? settings.problem ?? ready.problem} retry={again} />
      {!data && nodes.isBusy && <Loading says="Asking every node…" />}
      {data?.backlog && <Waiting backlog={data.backlog} />}
      {data && <NodeTable nodes={data.items} />}
      {ready.data && <Needs ready={ready.data} />}
      {settings.data && <Environment answer={settings.data} />}
      <ReloadForm onDone={again} />
    </section>
  );
}

const looks: Readonly<Record<Node['state'], string>> = {
  well: 'delivered',
  unwell: 'failed',
  silent: 'failed',
  left: 'cancelled',
  lost: 'failed',
};
const titles: Readonly<Record<Node['state'], string>> = {
  well: 'answers',
  unwell: 'not all it needs',
  silent: 'does not answer',
  left: 'left',
  lost: 'lost',
};

/** What waits in the database is no node's: whichever is free does it. */
function Waiting({ backlog }: { readonly backlog: Backlog }): VNode {
  const counted = (count: number | null, what: string): string =>
    `${count?.toLocaleString() ?? 'no one knows how many'} ${what}`;
  return (
    <p class="muted">
      Waiting in the database, for any node: {counted(backlog.notices, 'notices')},{' '}
      {counted(backlog.audit_events, 'audit events')}.
    </p>
  );
}

/** Those that are there, and the newest of those that have gone. */
const NodeTable = ({ nodes }: { readonly nodes: readonly Node[] }): VNode => (
  <Table
    label="Nodes of the cluster"
    items={nodes}
    keyOf={(each) => `${each.node} ${each.state}`}
    columns={[
      [
        'Node',
        (each) => (
          <>
            <Code>{each.node}</Code>
            <Below>{each.host}</Below>
          </>
        ),
      ],
      [
        'State',
        (each) => (
          <>
            <State state={looks[each.state]} says={titles[each.state]} />
            {each.away.length > 0 && <div class="fine">{each.away.join(', ')} away</div>}
          </>
        ),
      ],
      ['Lease', (each) => (each.lease ? 'answers from memory' : 'none')],
      ['Sending', (each) => each.sending ?? '–'],
      ['Hosts', (each) => <bdi>{each.pieces.join(', ') || '–'}</bdi>],
      ['Release', (each) => <bdi>{each.release ?? '–'}</bdi>],
      ['Started', (each) => <Time at={each.started_at} />],
      ['Last seen', (each) => <Time at={each.last_seen_at} />],
    ]}
  />
);

/** What a check says, in words. */
function said(value: unknown): string {
  if (value === true) return 'answers';
  if (value === false) return 'does not answer';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The needs of the gateway that answers this page. */
function Needs({ ready }: { readonly ready: Readiness }): VNode {
  const { status, checks, ...others } = ready;
  const parts = { ...(isObject(checks) ? checks : {}), ...others };
  return (
    <Section title="This gateway">
      <dl class="facts">
        <Fact name="status" says={<strong>{said(status)}</strong>} />
        {Object.entries(parts).map(([name, value]) => (
          <Fact key={name} name={name.replaceAll('_', ' ')} says={said(value)} />
        ))}
      </dl>
    </Section>
  );
}

const Names = ({ names }: { readonly names: readonly string[] }): VNode => (
  <span>
    {names.map((name) => (
      <code key={name}>{name}</code>
    ))}
  </span>
);

const orNone = (names: readonly string[]): VNode | string =>
  names.length === 0 ? 'none' : <Names names={names} />;

function Environment({ answer }: { readonly answer: Reload }): VNode {
  const { changed_settings: changed, requires_restart: restart } = answer;
  return (
    <Section title="Settings">
      {changed.length === 0 && restart.length === 0 ? (
        <p class="muted">Every node runs with what its environment says.</p>
      ) : (
        <p>
          A reload of the environment would change <Names names={changed} />
        </p>
      )}
      {restart.length > 0 && (
        <p class="warning">
          Only a restart applies <Names names={restart} />
        </p>
      )}
    </Section>
  );
}

const choices = [
  ['reload_env', 'Read the environment again', 'and apply the settings that need no restart'],
  ['all', 'Drop all effective values', 'of every tenant, from the memory of every node'],
  ['configuration_service', 'Drop all documents', 'the cache configuration_service'],
  ['dynamic_config_service', 'Drop all that is derived', 'the cache dynamic_config_service'],
] as const;
type Choice = (typeof choices)[number][0];

const requestOf = (chosen: ReadonlySet<Choice>): object => ({
  reload_env: chosen.has('reload_env'),
  invalidate: { all: chosen.has('all') },
  reinit: {
    configuration_service: chosen.has('configuration_service'),
    dynamic_config_service: chosen.has('dynamic_config_service'),
  },
});

function ReloadForm({ onDone }: { readonly onDone: () => void }): VNode {
  const [chosen, setChosen] = useState<ReadonlySet<Choice>>(new Set(['reload_env']));
  const [isOpen, setOpen] = useState(false);
  const [done, setDone] = useState<Reload>();
  const choose = (name: Choice): void => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    setChosen(next);
  };
  const begin = (): void => {
    setDone(undefined);
    setOpen(true);
  };
  return (
    <Section title="Reload">
      {done && (
        <p class="notice" role="status">
          <strong>{done.status === 'ok' ? 'Every node did it.' : 'Not every node did it.'}</strong>{' '}
          {done.errors?.map(({ node, message }) => (
            <span key={node}>
              <code>{node}</code> {message}{' '}
            </span>
          ))}
        </p>
      )}
      <Form onSend={begin}>
        {choices.map(([name, title, about]) => (
          <label class="check" key={name}>
            <input
              type="checkbox"
              name={name}
              checked={chosen.has(name)}
              onChange={() => choose(name)}
            />
            <span>
              {title} <span class="muted">{about}</span>
            </span>
          </label>
        ))}
        <p class="buttons">
          <Button type="submit" class="secondary" says="Preview" disabled={chosen.size === 0} />
        </p>
      </Form>
      {isOpen && (
        <ReloadReview
          request={requestOf(chosen)}
          onClose={() => setOpen(false)}
          onReloaded={(answer) => {
            setOpen(false);
            setDone(answer);
            onDone();
          }}
        />
      )}
    </Section>
  );
}

function ReloadReview({
  request,
  onClose,
  onReloaded,
}: {
  readonly request: object;
  readonly onClose: () => void;
  readonly onReloaded: (answer: Reload) => void;
}): VNode {
  const { data, problem, isBusy } = useLoaded(JSON.stringify(request), (aborted) =>
    tryReload(request, aborted),
  );
  const work = async (): Promise<void> => {
    const answer = await call<Reload>('POST', '/config/reload', { body: request });
    onReloaded(answer.body);
  };
  return (
    <FormDialog
      title="Reload the cluster"
      verb="Reload"
      isReady={data !== undefined}
      work={work}
      onClose={onClose}
    >
      {!data && isBusy && <Loading says="Trying it on every node…" />}
      <ProblemBox problem={problem} />
      {data && (
        <dl class="facts">
          <Fact name="Nodes" says={<span class="number">{data.nodes.length}</span>} />
          <Fact name="Settings that change" says={orNone(data.changed_settings)} />
          <Fact name="Settings that need a restart" says={orNone(data.requires_restart)} />
          <Fact name="Effective values dropped">
            {data.invalidated.all ? 'of every tenant' : 'none'}
          </Fact>
          <Fact name="Caches emptied" says={orNone(data.reinitialized)} />
        </dl>
      )}
      {data?.errors && (
        <div class="problem" role="alert">
          <p>
            <strong>Not every node would do it.</strong>
          </p>
          <ul>
            {data.errors.map(({ node, action, message }) => (
              <li key={node}>
                <code>{node}</code> {action}: {message}
              </li>
            ))}
          </ul>
        </div>
      )}
    </FormDialog>
  );
}
