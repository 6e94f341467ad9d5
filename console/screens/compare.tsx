/**
 * Two effective configurations side by side: of two contexts, two moments or two tenants. What
 * differs is shown first; both questions, the filter and what is shown stand in the address, those
 * of the right side as `with_…`.
 */
import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { diff, isEqual } from '../../shared/schema/diff.ts';
import { isObject } from '../../shared/schema/json-pointer.ts';
import { query, setQuery, tenantShown, wantedText } from '../address.ts';
import { get, send, withQuery } from '../api.ts';
import { contextText, localTime, nameBeside, shortJson } from '../format.ts';
import { useGrowing } from '../growing.ts';
import { useLive, useLoaded } from '../loading.ts';
import { CheckFilter, FilterField, Filters, Form, Select } from '../fields.tsx';
import { Button, Code, Time, Value, Who } from '../inline.tsx';
import {
  choicesOf,
  Empty,
  Heading,
  Loading,
  ProblemBox,
  TableRegion,
  TypedField,
} from '../parts.tsx';
import { readIn, tokens } from '../session.ts';
import { AsOf, contextAsOf, contextFields, type ContextAsOf } from './as-of.tsx';
import { layerTitles, type Explained } from './ladder.ts';

type Effective = ResultOf<'config-resolver.resolve'>;
type Contexts = ResultOf<'tenant-config.contexts'>;

const fieldTitles: Readonly<Record<keyof ContextAsOf, string>> = {
  agent_type: 'Agent type',
  service_id: 'Service',
  service_type: 'Service type',
  as_of: 'As of',
};

/** What a side asks: the names of its parameters begin with this. */
const sides = { left: '', right: 'with_' } as const;
type Side = keyof typeof sides;

const parametersOf = (side: Side, question: ContextAsOf): Record<string, string> =>
  Object.fromEntries(contextFields.map((name) => [sides[side] + name, question[name] ?? '']));

interface Compared {
  readonly contexts: Contexts;
  readonly left: Effective;
  readonly right: Effective;
}

const addressOf = (id: string, question: ContextAsOf): string =>
  withQuery(`/tenants/${id}/config/effective`, { ...question, explain: 'true' });

/** One after the other: while another tenant is read, the session acts for that one. */
async function readBoth(
  own: string,
  other: string,
  left: ContextAsOf,
  right: ContextAsOf,
  aborted: AbortSignal,
): Promise<Compared> {
  const contexts = await get<Contexts>(`/tenants/${own}/contexts`, aborted);
  const first = await get<Effective>(addressOf(own, left), aborted);
  const address = addressOf(other, right);
  if (other === own)
    return { contexts, left: first, right: await get<Effective>(address, aborted) };
  const second = await readIn(other, async (headers) => {
    const { body } = await send<Effective>('GET', address, { headers });
    return body;
  });
  return { contexts, left: first, right: second };
}

export function Compare(): VNode {
  const own = tenantShown.value;
  const left = contextAsOf(sides.left);
  const right = contextAsOf(sides.right);
  const other = query.value.get('with_tenant') ?? own;
  const key = JSON.stringify([other, left, right]);
  const { data, problem, isBusy, reload } = useLoaded(key, (aborted) =>
    readBoth(own, other, left, right, aborted),
  );
  // Going to another tenant for every change of this one would disturb the other tabs.
  useLive(() => other === own && reload());
  return (
    <section>
      <Heading title="Compare" about="Two contexts, moments or tenants, key by key" />
      <Form class="sides" aria-label="What to compare">
        <SideForm side="left" title="This" question={left} contexts={data?.contexts} />
        <SideForm
          side="right"
          title="With"
          question={right}
          contexts={other === own ? data?.contexts : undefined}
          tenants={<OtherTenant own={own} other={other} />}
        />
      </Form>
      <p class="buttons">
        <Button
          class="small"
          says="Copy to both"
          onClick={() => setQuery(parametersOf('right', left))}
        />
        <Button
          class="small"
          says="Swap"
          onClick={() =>
            setQuery({ ...parametersOf('left', right), ...parametersOf('right', left) })
          }
        />
      </p>
      <ProblemBox problem={problem} retry={reload} />
      {data && <Unknown side="left" effective={data.left} question={left} />}
      {data && <Unknown side="right" effective={data.right} question={right} />}
      {data ? <Comparison data={data} left={left} right={right} /> : isBusy && <Loading />}
    </section>
  );
}

/** The tenants that the person may look into, where there is more than one. */
function OtherTenant({
  own,
  other,
}: {
  readonly own: string;
  readonly other: string;
}): VNode | null {
  const memberships = tokens.value?.memberships ?? [];
  if (memberships.length < 2) return null;
  return (
    <Select
      label="Tenant"
      name="with_tenant"
      value={other}
      options={memberships.map(({ tenant_id: id, name }) => ({ value: id, title: name }))}
      onValue={(id) => setQuery({ with_tenant: id === own ? '' : id })}
    />
  );
}

function SideForm({
  side,
  title,
  question,
  contexts,
  tenants,
}: {
  readonly side: Side;
  readonly title: string;
  readonly question: ContextAsOf;
  readonly contexts: Contexts | undefined;
  readonly tenants?: VNode;
}): VNode {
  const names = {
    agent_type: contexts?.agent_types,
    service_id: contexts?.services.map(({ service_id: id }) => id),
    service_type: contexts?.service_types,
  };
  const change = (name: keyof ContextAsOf, value: string): void =>
    setQuery({ [sides[side] + name]: value });
  const inputs = (['agent_type', 'service_id', 'service_type'] as const).map((name) => (
    <TypedField
      key={name}
      label={fieldTitles[name]}
      name={sides[side] + name}
      value={question[name] ?? ''}
      choices={choicesOf(names[name])}
      placeholder="any"
      onTyped={(text) => change(name, text.trim())}
    />
  ));
  return (
    <fieldset>
      <legend>{title}</legend>
      <div class="question side">
        {tenants} {inputs}
        <AsOf
          name={sides[side] + 'as_of'}
          value={question.as_of ?? ''}
          onChange={(value: string) => change('as_of', value)}
        />
      </div>
    </fieldset>
  );
}

function Unknown({
  side,
  effective,
  question,
}: {
  readonly side: Side;
  readonly effective: Effective;
  readonly question: ContextAsOf;
}): VNode | null {
  if (effective.unknown.length === 0) return null;
  return (
    <div class="problem" role="alert">
      <p>
        <strong>On the {side} nothing has the name</strong>{' '}
        {effective.unknown.map((name) => (
          <span key={name}>
            {fieldTitles[name].toLowerCase()} <Code>{question[name]}</Code>{' '}
          </span>
        ))}
        , so its layer is missing.
      </p>
    </div>
  );
}

interface Difference {
  readonly name: string;
  readonly left: Explained | undefined;
  readonly right: Explained | undefined;
  /** The places in the value that differ; none where it is the same on both sides. */
  readonly places: ReturnType<typeof diff>;
}

const valueIn = ({ values }: Effective, key: string): unknown =>
  Object.hasOwn(values, key) ? values[key] : undefined;

function rowsOf(data: Compared) {
  const { left, right } = data;
  const [one, two] = [left.explain ?? {}, right.explain ?? {}];
  const names = [...new Set([...Object.keys(one), ...Object.keys(two)])];
  return names.toSorted().map((key) => {
    const [before, after] = [valueIn(left, key), valueIn(right, key)];
    const whole = isEqual(before, after) ? [] : [{ path: '', before, after }];
    const difference: Difference = {
      name: key,
      left: Object.hasOwn(one, key) ? one[key] : undefined,
      right: Object.hasOwn(two, key) ? two[key] : undefined,
      places: isObject(before) && isObject(after) ? diff(before, after) : whole,
    };
    return {
      differs: difference.places.length > 0,
      text: `${key} ${shortJson(before, 500)} ${shortJson(after, 500)}`.toLowerCase(),
      // Made once: the same again is not drawn again, which of many takes longer than a filter may.
      drawn: <ComparedKey key={key} {...difference} data={data} />,
    };
  });
}

const momentOf = ({ as_of: asOf }: ContextAsOf): string => {
  if (asOf === undefined) return 'now';
  return /^\d+$/.test(asOf) ? `at revision ${asOf}` : `at ${localTime(asOf)}`;
};

/** Tenant, context and moment, which people gave the names of. */
function Title({
  question,
  effective,
}: {
  readonly question: ContextAsOf;
  readonly effective: Effective;
}): VNode {
  const { tenant_id: id } = effective;
  const name = tokens.value?.memberships.find(({ tenant_id: each }) => each === id)?.name;
  return (
    <span>
      {name !== undefined && (
        <span>
          <bdi>{name}</bdi>,{' '}
        </span>
      )}
      <bdi>{contextText(question) || 'All services'}</bdi>, {momentOf(question)}
    </span>
  );
}

function Comparison({
  data,
  left,
  right,
}: {
  readonly data: Compared;
  readonly left: ContextAsOf;
  readonly right: ContextAsOf;
}): VNode {
  const rows = useMemo(() => rowsOf(data), [data]);
  const wanted = wantedText();
  const isAll = query.value.has('all');
  const differing = rows.filter(({ differs }) => differs);
  const shown = (isAll ? rows : differing).filter(({ text }) => text.includes(wanted));
  const count = useGrowing(`${wanted} ${isAll}`, shown.length);
  return (
    <div>
      <Filters class="question two" aria-label="What to show">
        <FilterField placeholder="key or value" />
        <CheckFilter name="all" label="Show identical" />
      </Filters>
      <p class="fine count" role="status">
        {differing.length === 0
          ? `All ${rows.length} keys are the same.`
          : `${differing.length} of ${rows.length} keys differ.`}
      </p>
      {shown.length === 0 ? (
        differing.length > 0 && <Empty>No key fits the filter.</Empty>
      ) : (
        <TableRegion label="Comparison">
          <table class="compared">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">
                  <Title question={left} effective={data.left} />
                </th>
                <th scope="col">
                  <Title question={right} effective={data.right} />
                </th>
              </tr>
            </thead>
            {shown.slice(0, count).map(({ drawn }) => drawn)}
          </table>
        </TableRegion>
      )}
    </div>
  );
}

function ComparedKey({
  name,
  left,
  right,
  places,
  data,
}: Difference & { readonly data: Compared }): VNode {
  const isInside = places.length > 0 && places.every(({ path }) => path !== '');
  const cell = (explained: Explained | undefined, effective: Effective): VNode => (
    <td>
      {!isInside && <Value value={valueIn(effective, name)} longest={200} />}
      {explained && (
        <div class="fine">
          {explained.enforced ? 'a guardrail' : layerTitles[explained.layer]}
          {explained.updated_at !== null && (
            <span>
              {' '}
              · <Who id={explained.updated_by} name={nameBeside(explained, 'updated_by')} /> ·{' '}
              <Time at={explained.updated_at} />
            </span>
          )}
        </div>
      )}
    </td>
  );
  return (
    <tbody>
      <tr class={places.length > 0 ? 'differs' : ''}>
        <th scope="row">
          <bdi>{name}</bdi>
          {places.length > 0 && <span class="unseen"> differs</span>}
        </th>
        {cell(left, data.left)} {cell(right, data.right)}
      </tr>
      {isInside &&
        places.slice(0, 50).map(({ path, before, after }) => (
          <tr key={path} class="inside">
            <th scope="row">
              <Code>{path}</Code>
            </th>
            <td>
              <Value value={before} longest={200} />
            </td>
            <td>
              <Value value={after} longest={200} />
            </td>
          </tr>
        ))}
      {isInside && places.length > 50 && (
        <tr class="inside">
          <td colspan={3} class="fine">
            and {places.length - 50} more places inside
          </td>
        </tr>
      )}
    </tbody>
  );
}
