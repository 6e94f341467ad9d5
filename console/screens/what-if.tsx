/**
 * Would this action be allowed, and why? The question stands in the address; nothing is started, and
 * nobody is asked.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant, parameter } from '../address.ts';
import { call } from '../api.ts';
import { anyOf, Filters, SelectField, TypedFilter } from '../fields.tsx';
import type { Context } from '../format.ts';
import { riskLevels } from '../known-values.ts';
import { Table, Waiting } from '../lists.tsx';
import { useLive, useLoaded, useGet } from '../loading.ts';
import { State, Time } from '../inline.tsx';
import { choicesOf, Empty, Heading } from '../parts.tsx';
import { ReasonTable } from './reasons.tsx';

type Decided = ResultOf<'config-resolver.decide'>;
type Contexts = ResultOf<'tenant-config.contexts'>;

const names = ['action', 'agent_type', 'service_id', 'service_type'] as const;
const numbers = ['cost_impact', 'resource_scaling'] as const;

const asked = (name: string): string => parameter(name).trim();
const contextAsked = (): Context => ({
  agent_type: asked('agent_type'),
  service_id: asked('service_id'),
  service_type: asked('service_type'),
});

/** Undefined until it says what it is about. What is no number the API refuses at its place. */
function intentAsked(): Readonly<Record<string, unknown>> | undefined {
  const risk = asked('risk_level');
  if (asked('action') === '' || risk === '') return undefined;
  const texts = names.map((name) => [name, asked(name)] as const);
  const amounts = numbers.map((name) => [name, asked(name)] as const);
  return {
    risk_level: risk,
    ...Object.fromEntries(texts.filter(([, text]) => text !== '')),
    ...Object.fromEntries(
      amounts
        .filter(([, text]) => text !== '')
        .map(([name, text]) => [name, Number.isNaN(Number(text)) ? text : Number(text)]),
    ),
  };
}

export function WhatIf(): VNode {
  const intent = intentAsked();
  const address = ofTenant('/decide');
  const { data, problem, reload } = useLoaded(
    `${address} ${JSON.stringify(intent)}`,
    async (aborted) =>
      intent && (await call<Decided>('POST', address, { body: intent, signal: aborted })).body,
  );
  useLive(reload);
  return (
    <section>
      <Heading
        title="What if"
        about="Whether automation may do something now, and why. Nothing is started."
      />
      <ContextAsOf />
      {intent === undefined ? (
        <Empty>Say what automation would do, and how risky it is.</Empty>
      ) : (
        <Waiting data={data} problem={problem} retry={reload} />
      )}
      {intent && data && <Answer decided={data} />}
    </section>
  );
}

function ContextAsOf(): VNode {
  const { data } = useGet<Contexts>(ofTenant('/contexts'));
  const field = (name: string, label: string, placeholder: string, names?: string[]): VNode => (
    <TypedFilter name={name} label={label} placeholder={placeholder} choices={choicesOf(names)} />
  );
  return (
    <Filters class="question five" aria-label="What for">
      {field('action', 'Action', 'such as scale_min_instances')}
      <SelectField name="risk_level" label="Risk" options={anyOf(riskLevels, 'choose')} />
      {field('cost_impact', 'Cost', 'none said')}
      {field('resource_scaling', 'Scaling factor', 'none said')}
      {field(
        'service_id',
        'Service',
        'none',
        data?.services.map(({ service_id: id }) => id),
      )}
      {field('service_type', 'Service type', "the service's", data?.service_types)}
      {field('agent_type', 'Agent type', 'none', data?.agent_types)}
    </Filters>
  );
}

const verdicts: Readonly<Record<Decided['decision'], { title: string; look: string }>> = {
  allow: { title: 'It may act on its own', look: 'delivered' },
  approval_required: { title: 'It has to ask people', look: 'pending' },
  deny: { title: 'It may not', look: 'failed' },
};

function Answer({ decided }: { readonly decided: Decided }): VNode {
  const { title, look } = verdicts[decided.decision];
  return (
    <>
      <p class="verdict-of" role="status">
        <State state={look} says={decided.decision.replace('_', ' ')} /> <strong>{title}</strong>
        {decided.retry_at && (
          <>
            ; again possible <Time at={decided.retry_at} />
          </>
        )}
      </p>
      {decided.warnings?.map(({ path, message }) => (
        <p key={path} class="notice">
          <code>{path}</code> {message}
        </p>
      ))}
      <ReasonTable
        label="Reasons"
        reasons={decided.reasons}
        place={contextAsked()}
        empty="No rule stands in its way."
      />
      <Table
        label="Budgets that it counts against"
        look="lines"
        items={decided.budgets}
        keyOf={({ by, name }) => `${by}/${name}`}
        empty={false}
        columns={[
          [
            'Budget',
            ({ by, name }) => (
              <>
                <bdi>{name}</bdi> <span class="fine">of the {by}</span>
              </>
            ),
          ],
          [{ number: 'Left' }, ({ remaining }) => remaining],
          ['Resets', ({ resets_at: resets }) => <Time at={resets} />],
        ]}
      />
    </>
  );
}
