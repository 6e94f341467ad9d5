/** The delivery log: which notice went where, every attempt of one, and sending one again. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, parameter, setQuery } from '../address.ts';
import { useAction } from '../action.ts';
import { call, withQuery } from '../api.ts';
import { channels, deliveryStates } from '../known-values.ts';
import { useEvery, useGet } from '../loading.ts';
import { Pager, Table, Waiting, Notice } from '../lists.tsx';
import { anyOf, FilterField, Filters, fitting, SelectField } from '../fields.tsx';
import { Button, Named, State, Time } from '../inline.tsx';
import { Fact, Heading, ProblemBox, Section, TextBlock } from '../parts.tsx';
import { hasRole } from '../session.ts';
import type { ScreenProperties } from './screen.ts';

type Deliveries = ResultOf<'notifier.deliveries.list'>;
type Delivery = Deliveries['items'][number];
type Detail = ResultOf<'notifier.deliveries.get'>;

export const DeliveryLog = ({ rest: [id] }: ScreenProperties): VNode =>
  id === undefined ? <Log /> : <OneDelivery key={id} id={id} />;

function Log(): VNode {
  const [cursor, approval] = [parameter('cursor'), parameter('approval_id')];
  const address = withQuery(ofTenant('/notifications/deliveries'), {
    state: parameter('state'),
    channel: parameter('channel'),
    approval_id: approval,
    cursor,
    limit: '100',
  });
  const { data, problem, reload } = useGet<Deliveries>(address);
  const shown = fitting(
    data?.items,
    ({ target, type, reason }) => `${target} ${type} ${reason ?? ''}`,
  );
  return (
    <section>
      <Heading title="Deliveries" about="Which notice went where, and what became of it" />
      <Filters class="question">
        <SelectField name="state" label="State" options={anyOf(deliveryStates)} />
        <SelectField name="channel" label="Channel" options={anyOf(channels)} />
        <FilterField label="Filter this page" placeholder="target, notice or reason" />
      </Filters>
      {approval !== '' && (
        <p class="notice">
          Only of <a href={hrefOf(ofTenant(`/approvals/${approval}`))}>one approval</a>.{' '}
          <Button
            class="link"
            says="Of all"
            onClick={() => setQuery({ approval_id: '', cursor: '' })}
          />
        </p>
      )}
      <Waiting data={data} problem={problem} retry={reload} />
      <DeliveryTable
        items={shown}
        empty={
          data?.items.length === 0
            ? 'Nothing was sent that fits.'
            : 'None on this page fits the filter.'
        }
      />
      <Pager cursor={cursor} next={data?.next_cursor} />
    </section>
  );
}

/** Such as "requested". */
const noticeOf = ({ type, hop }: Delivery): string => {
  const what = type.replace('approval.', '');
  return hop === 0 ? what : `${what}, escalation ${hop}`;
};

/** Newest first, each with a way to its attempts. */
export const DeliveryTable = ({
  items,
  empty,
}: {
  readonly items: readonly Delivery[] | undefined;
  readonly empty: string;
}): VNode => (
  <Table
    label="Deliveries"
    empty={empty}
    items={items}
    columns={[
      [
        'Target',
        (each) => (
          <Named to={ofTenant(`/deliveries/${each.id}`)} below={each.reason}>
            {each.target}
          </Named>
        ),
      ],
      ['Channel', (each) => each.channel],
      ['Notice', (each) => noticeOf(each)],
      ['State', (each) => <State state={each.state} />],
      [{ number: 'Attempts' }, (each) => each.attempts],
      ['When', (each) => <Time at={each.settled_at ?? each.created_at} />],
    ]}
  />
);

/** How often what is on its way is looked at, while the page is seen. */
const onItsWayMs = 2000;

function OneDelivery({ id }: { readonly id: string }): VNode {
  const address = ofTenant(`/notifications/deliveries/${encodeURIComponent(id)}`);
  const { data, problem, reload } = useGet<Detail>(address);
  useEvery(onItsWayMs, () => {
    if (data?.state === 'pending') reload();
  });
  return (
    <section>
      <Heading title="Delivery" />
      <Waiting
        data={data}
        problem={problem}
        retry={reload}
        unknown="There is no delivery with this id."
      />
      {data && <Facts delivery={data} />}
      {data && hasRole('tenant_admin') && (
        <Replay address={address} delivery={data} onDone={reload} />
      )}
      {data && <Attempts attempts={data.log} />}
    </section>
  );
}

function Facts({ delivery }: { readonly delivery: Detail }): VNode {
  const { target, channel, state, reason, next_attempt_at: next, settled_at: settled } = delivery;
  return (
    <dl class="facts">
      <Fact name="Target" says={<bdi>{target}</bdi>} />
      <Fact name="Channel" says={channel} />
      <Fact name="Notice">
        {noticeOf(delivery)}
        {delivery.approval_id !== null && (
          <>
            , of <a href={hrefOf(ofTenant(`/approvals/${delivery.approval_id}`))}>its approval</a>
          </>
        )}
      </Fact>
      <Fact name="State" says={<State state={state} />} />
      {reason !== null && <Fact name="Reason" says={<bdi>{reason}</bdi>} />}
      <Fact name="Made" says={<Time at={delivery.created_at} />} />
      {settled !== null && <Fact name="Settled" says={<Time at={settled} />} />}
      {next !== null && <Fact name="Next attempt" says={<Time at={next} />} />}
      <Fact name="webhook-id" says={<code>{delivery.webhook_id}</code>} />
    </dl>
  );
}

function Replay({
  address,
  delivery,
  onDone,
}: {
  readonly address: string;
  readonly delivery: Detail;
  readonly onDone: () => void;
}): VNode {
  const { isBusy, problem, run } = useAction();
  const [isSent, setSent] = useState(false);
  const replay = async (): Promise<void> => {
    await run(async () => {
      await call('POST', `${address}/replay`);
      setSent(true);
    });
    onDone();
  };
  return (
    <div>
      <ProblemBox problem={problem} />
      {isSent && (
        <Notice says="It is sent again, under the same webhook-id. What becomes of it shows here." />
      )}
      <p>
        <Button
          class="secondary"
          says="Send it again"
          isBusy={isBusy}
          disabled={delivery.state === 'pending'}
          onClick={() => void replay()}
        />
      </p>
    </div>
  );
}

const Attempts = ({ attempts }: { readonly attempts: Detail['log'] }): VNode => (
  <Section title="Attempts">
    <Table
      label="Attempts"
      items={attempts}
      empty="None yet."
      columns={[
        ['When', (each) => <Time at={each.at} />],
        [{ number: 'Status' }, (each) => each.status ?? '–'],
        [{ number: 'Took' }, (each) => <>{each.duration_ms} ms</>],
        [
          'What came back',
          (each) => (
            <>
              {each.error !== null && (
                <div>
                  <bdi>{each.error}</bdi>
                </div>
              )}
              {each.answer !== null && each.answer !== '' && <TextBlock text={each.answer} />}
            </>
          ),
        ],
      ]}
    />
  </Section>
);
