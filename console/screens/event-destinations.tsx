/** Where audit events are pushed to: how far each destination is, a test of it, and sending again. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant } from '../address.ts';
import { useAction } from '../action.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { Field } from '../fields.tsx';
import { Notice, RowButton, Table, Waiting } from '../lists.tsx';
import { lookAgainMs, useEvery, useLive, useGet } from '../loading.ts';
import { Named, State, Time } from '../inline.tsx';
import { Heading, ProblemBox } from '../parts.tsx';
import { DocumentEditor } from './document-editor.tsx';
import { platformEventDestinations } from './platform-kinds.ts';

type Destination = ResultOf<'audit.destinations.list'>['items'][number];
type Tested = ResultOf<'audit.destinations.test'>;

const minute = 60;
const hour = 3600;
/** Such as "3 min". */
function lagText(seconds: number): string {
  if (seconds < minute) return `${Math.ceil(seconds)} s`;
  return seconds < hour ? `${Math.round(seconds / minute)} min` : `${Math.round(seconds / hour)} h`;
}

export const EventDestinations = (): VNode => (
  <section>
    <Heading
      title="Event destinations"
      about="Where audit events are pushed to, and how far each has come"
    >
      <span class="grow"></span>
      <a href={hrefOf(ofTenant('/documents/event-destinations'))}>Edit destinations</a>
    </Heading>
    <Progress address={ofTenant('/event-destinations')} />
  </section>
);

export const PlatformEventDestinations = (): VNode => (
  <section>
    <DocumentEditor key="event-destinations" kind={platformEventDestinations} id="" />
    <section aria-label="How far each destination has come">
      <h2>How far each has come</h2>
      <Progress address="/event-destinations" />
    </section>
  </section>
);

function Progress({ address }: { readonly address: string }): VNode {
  const { data, problem, reload } = useGet<ResultOf<'audit.destinations.list'>>(address);
  const [says, setSays] = useState<string>();
  const [replaying, setReplaying] = useState<Destination>();
  const testing = useAction();
  useLive(reload, ({ config_type: type }) => type === 'event_destinations_config');
  useEvery(lookAgainMs, reload);
  const at = ({ name }: Destination): string => `${address}/${encodeURIComponent(name)}`;
  const test = (each: Destination): Promise<void> =>
    testing.run(async () => {
      setSays(undefined);
      const { body } = await call<Tested>('POST', `${at(each)}/test`);
      setSays(testText(each, body));
    });
  return (
    <>
      <Waiting data={data} problem={problem} retry={reload} />
      <ProblemBox problem={testing.problem} />
      <Notice says={says} />
      <Table
        label="Event destinations"
        items={data?.items}
        keyOf={({ name }) => name}
        empty="There is none: events are only read here and through the API."
        columns={[
          ['Destination', ({ name, target }) => <Named below={target}>{name}</Named>],
          [
            'State',
            ({ state, error }) => (
              <>
                <State state={state} />
                {error !== null && (
                  <div class="fine invalid">
                    <bdi>{error}</bdi>
                  </div>
                )}
              </>
            ),
          ],
          [
            { number: 'Behind' },
            ({ seq, head, lag_seconds: lag }) => (
              <>
                {Math.max(0, head - seq)} of {head}
                {lag > 0 && <div class="fine">for {lagText(lag)}</div>}
              </>
            ),
          ],
          ['Newest answer', newestAnswer],
          [
            { unseen: 'Actions' },
            (each) => (
              <>
                <RowButton says="Test" of={each.name} onClick={() => void test(each)} />{' '}
                <RowButton
                  says="Send again…"
                  of={`to ${each.name}`}
                  onClick={() => setReplaying(each)}
                />
              </>
            ),
          ],
        ]}
      />
      {replaying && (
        <Replay
          destination={replaying}
          address={at(replaying)}
          onClose={() => setReplaying(undefined)}
          onDone={(from) => {
            setSays(`${replaying.name} is sent everything from event ${from} on again.`);
            setReplaying(undefined);
            reload();
          }}
        />
      )}
    </>
  );
}

function testText(
  { name }: Destination,
  { delivered, status, error, duration_ms: ms }: Tested,
): string {
  const answer = status === null ? '' : ` with ${status}`;
  return delivered
    ? `${name} took a test${answer}, after ${ms} ms.`
    : `${name} did not take a test${answer}: ${error ?? 'it was refused'}.`;
}

const newestAnswer = ({
  status,
  failures,
  delivered_at: deliveredAt,
  retry_at: retryAt,
}: Destination): VNode => (
  <>
    {status !== null && <span class="number">{status} </span>}
    <Time at={deliveredAt} />
    {failures > 0 && (
      <div class="fine">
        {failures} failed{' '}
        {retryAt !== null && (
          <span>
            , again <Time at={retryAt} />
          </span>
        )}
      </div>
    )}
  </>
);

function Replay({
  destination: { name, seq, head },
  address,
  onClose,
  onDone,
}: {
  readonly destination: Destination;
  readonly address: string;
  readonly onClose: () => void;
  readonly onDone: (from: number) => void;
}): VNode {
  const [from, setFrom] = useState('1');
  const work = async (): Promise<void> => {
    const body = { from_seq: Number(from) };
    await call('POST', `${address}/replay`, { body });
    onDone(body.from_seq);
  };
  return (
    <FormDialog
      title={`Send ${name} its events again`}
      verb="Send again"
      isReady={/^[1-9][0-9]*$/.test(from)}
      work={work}
      onClose={onClose}
    >
      <p>
        It has accepted those up to {seq} of {head}. A receiver puts what comes again in the place
        of what it has from that number on.
      </p>
      <Field
        label="From event"
        name="from_seq"
        inputmode="numeric"
        required
        value={from}
        onValue={setFrom}
      />
    </FormDialog>
  );
}
