/**
 * Approval routing as it is used: who is asked at which risk, over which channels, and a test
 * of each.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant } from '../address.ts';
import { useAction } from '../action.ts';
import { call } from '../api.ts';
import { channels, riskLevels } from '../known-values.ts';
import { useLive, useGet } from '../loading.ts';
import { Table, Waiting } from '../lists.tsx';
import { Button, Code, Risk, State } from '../inline.tsx';
import { Heading, ProblemBox, Section, TableRegion, TextBlock } from '../parts.tsx';
import { hasRole } from '../session.ts';

type Routes = ResultOf<'tenant-config.notifications.effective'>;
type Tested = ResultOf<'notifier.test'>;
type Channel = Tested['channel'];

export function Notifications(): VNode {
  const { data, problem, reload } = useGet<Routes>(ofTenant('/config/notifications/effective'));
  useLive(reload, ({ config_type: type }) => type === 'notification_config');
  return (
    <section>
      <Heading title="Notifications" about="Who is asked for approval, and how they are notified">
        <span class="grow"></span>
        <a href={hrefOf(ofTenant('/documents/notifications'))}>
          {hasRole('tenant_admin') ? 'Edit routing' : 'Show routing'}
        </a>
        <a href={hrefOf(ofTenant('/deliveries'))}>Deliveries</a>
      </Heading>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && (
        <div>
          <Asked routes={data} /> <Channels routes={data} />
        </div>
      )}
    </section>
  );
}

/** Groups in the order in which they are asked. */
const Chain = ({ groups }: { readonly groups: readonly string[] }): VNode =>
  groups.length === 0 ? (
    <span class="muted">everybody who may decide</span>
  ) : (
    <span>
      {groups.map((group, index) => (
        <span key={index}>
          {index > 0 && <span class="muted"> → </span>}
          <bdi>{group}</bdi>
        </span>
      ))}
    </span>
  );

function Asked({ routes }: { readonly routes: Routes }): VNode {
  const { approver_groups: groups, escalation, approval_policy: policy } = routes;
  const overrides = Object.entries(groups.action_overrides);
  const most = escalation.max_hops;
  return (
    <Section title="Who is asked">
      <Table
        label="Groups by risk"
        items={riskLevels}
        keyOf={(level) => level}
        columns={[
          [
            'For',
            (level) => (
              <>
                <Risk level={level} /> risk
              </>
            ),
          ],
          ['Groups, in order', (level) => <Chain groups={groups.risk_levels?.[level] ?? []} />],
          [{ number: 'Must approve' }, (level) => policy.required[level]],
        ]}
      >
        {overrides.map(([action, chain]) => (
          <tr key={`action ${action}`}>
            <th scope="row">
              action <Code>{action}</Code>
            </th>
            <td>
              <Chain groups={chain} />
            </td>
            <td class="number muted">by risk</td>
          </tr>
        ))}
      </Table>
      <p class="fine">
        {most === 0
          ? 'No one further is asked where no one decides.'
          : `The next group is asked after ${minutes(escalation.escalation_window_minutes)} without a decision, ${most === 1 ? 'once' : `${most} times at most`}; that may be ${escalation.poll_interval_seconds} s late.`}
        {policy.allow_self ? ' The requester may decide, too.' : ' The requester cannot decide.'}
        {policy.machines && ' API keys may decide.'}
      </p>
    </Section>
  );
}

const minutes = (count: number): string => `${count} ${count === 1 ? 'minute' : 'minutes'}`;

interface Way {
  /** Which webhook endpoint, from 0. */
  readonly endpoint?: number;
  readonly target: string;
  readonly about: string;
}
interface ChannelWay extends Way {
  readonly channel: Channel;
}

/** Of a channel without a row its name is shown. */
const waysOf: Readonly<Partial<Record<Channel, (routes: Routes) => readonly Way[]>>> = {
  webhook: ({ webhook }) =>
    webhook.endpoints.map((each, index) => {
      const { retry_attempts: retries, timeout_seconds: timeout } = each;
      const signed = each.secret === undefined ? 'not signed' : 'signed';
      return {
        endpoint: index,
        target: each.url,
        about: `${signed}, ${retries} retries, ${timeout} s to answer${each.auth ? `, ${each.auth.type} credential` : ''}`,
      };
    }),
  email({ email }) {
    const recipients = [...email.approval_recipients, ...email.default_recipients];
    const target = recipients.length === 0 ? 'members of the group asked' : recipients.join(', ');
    const about = `from ${email.from_email}; ${recipients.length === 0 ? 'no one else where a group has no members' : 'these where a group has no members'}`;
    return [{ target, about }];
  },
  chat({ chat }) {
    const space = chat?.google_chat;
    if (!space?.webhook_url) return [];
    const target = space.spaces?.join(', ') ?? 'Google Chat';
    return [{ target, about: space.include_links ? 'with links' : 'without links' }];
  },
  teams: ({ teams }) =>
    teams ? [{ target: 'Microsoft Teams', about: 'with a link to decide' }] : [],
  slack: ({ slack }) => (slack ? [{ target: slack.channel, about: 'with buttons to decide' }] : []),
};

const waysOfOther = (channel: Channel, routes: Routes): readonly Way[] =>
  routes[channel] ? [{ target: channel, about: 'configured' }] : [];

const waysIn = (routes: Routes): ChannelWay[] =>
  channels.flatMap((channel) =>
    (waysOf[channel]?.(routes) ?? waysOfOther(channel, routes)).map((way) => ({ ...way, channel })),
  );

function Channels({ routes }: { readonly routes: Routes }): VNode {
  const ways = waysIn(routes);
  return (
    <Section title="Channels">
      {routes.webhook.endpoints.length === 0 && (
        <p class="fine">
          No webhook endpoint is configured.{' '}
          {hasRole('tenant_admin') && (
            <a href={hrefOf(ofTenant('/documents/notifications'))}>Set one up</a>
          )}
        </p>
      )}
      <TableRegion label="Channels">
        <table>
          <thead>
            <tr>
              <th scope="col">Channel</th>
              <th scope="col">Target</th>
              <th scope="col">How</th>
              {hasRole('tenant_admin') && <th scope="col">Test</th>}
            </tr>
          </thead>
          <tbody>
            {ways.map((way) => (
              <WayRow key={`${way.channel} ${way.endpoint ?? ''}`} way={way} />
            ))}
          </tbody>
        </table>
      </TableRegion>
      <p class="fine">
        A test goes out now and is answered here; no one is asked to decide anything.
      </p>
    </Section>
  );
}

function WayRow({ way }: { readonly way: ChannelWay }): VNode {
  const { isBusy, problem, run } = useAction();
  const [tested, setTested] = useState<Tested>();
  const { channel, endpoint, target, about } = way;
  const test = (): Promise<void> =>
    run(async () => {
      setTested(undefined);
      const body = { channel, ...(endpoint !== undefined && { endpoint }) };
      const address = ofTenant('/notifications/test');
      const answer = await call<Tested>('POST', address, { body });
      setTested(answer.body);
    });
  return (
    <tr>
      <th scope="row">{channel}</th>
      <td>
        <bdi>{target}</bdi>
      </td>
      <td>
        {about}
        <div role="status">
          <ProblemBox problem={problem} />
          {tested?.results.length === 0 && <p class="fine">There is no one to send it to.</p>}
          {tested?.results.map((each, index) => (
            <Result key={index} result={each} />
          ))}
        </div>
      </td>
      {hasRole('tenant_admin') && (
        <td>
          <Button
            class="small"
            says="Test"
            aria-label={`Test ${channel} ${target}`}
            isBusy={isBusy}
            onClick={() => void test()}
          />
        </td>
      )}
    </tr>
  );
}

function Result({ result }: { readonly result: Tested['results'][number] }): VNode {
  const { target, delivered, status, duration_ms: ms, error, answer } = result;
  return (
    <div class="tested">
      <State state={delivered ? 'delivered' : 'failed'} /> <bdi>{target}</bdi>,{' '}
      {status !== null && <span>status {status}, </span>}
      <span class="number">{ms}</span> ms
      {error !== null && (
        <div>
          <bdi>{error}</bdi>
        </div>
      )}
      {answer !== null && answer !== '' && <TextBlock text={answer} />}
    </div>
  );
}
