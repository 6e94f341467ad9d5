/** Who was in the tenant at a moment, and who could approve what: for whoever reviews access. */
import type { VNode } from 'preact';
import type { AccessReport } from '../../shared/contracts/access-report.ts';
import { ofTenant, parameter, setQuery } from '../address.ts';
import { useAction } from '../action.ts';
import { call, withQuery } from '../api.ts';
import { saveText } from '../files.ts';
import { type Cells, Table, Waiting } from '../lists.tsx';
import { useGet } from '../loading.ts';
import { Below, Button, Code, Time, Value } from '../inline.tsx';
import { Heading, ProblemBox, Section, TypedField } from '../parts.tsx';
import { roleText } from '../roles.ts';
import { localFieldOf, timeTyped } from './as-of.tsx';
import { Form } from '../fields.tsx';

type Member = AccessReport['members'][number];
type Route = AccessReport['approvals']['routes'][number];

export function AccessOverTime(): VNode {
  const at = parameter('at');
  const { data, problem, reload } = useGet<AccessReport>(
    withQuery(ofTenant('/access-report'), { at }),
  );
  const saving = useAction();
  const save = (form: 'csv' | 'json'): void =>
    void saving.run(async () => {
      // Of the moment that is shown, whatever has changed since.
      const { body } = await call<unknown>(
        'GET',
        withQuery(ofTenant('/access-report'), { at: data?.at, format: form }),
      );
      const text = form === 'csv' ? String(body) : JSON.stringify(body, null, 2);
      saveText('access-report', form, [text]);
    });
  return (
    <section>
      <Heading title="Access report">
        <span class="grow"></span>
        {data && (
          <>
            <Button class="small" says="Save as CSV" onClick={() => save('csv')} />
            <Button class="small" says="Save as JSON" onClick={() => save('json')} />
          </>
        )}
      </Heading>
      <p class="fine">
        Who was in this tenant at a moment, what they could do, and who could approve what.
      </p>
      <Form class="question one">
        <TypedField
          label="As of (your time); empty for now"
          type="datetime-local"
          step="1"
          name="at"
          value={localFieldOf(at)}
          onTyped={(typed) => {
            const time = timeTyped(typed);
            if (time !== undefined) setQuery({ at: time });
          }}
        />
      </Form>
      <ProblemBox problem={saving.problem} />
      <Waiting data={data} problem={problem} retry={reload} />
      {data && <Report report={data} />}
    </section>
  );
}

function Report({ report }: { readonly report: AccessReport }): VNode {
  const { members, service_accounts: accounts, visits, groups, known_since: knownSince } = report;
  const isBefore = knownSince !== null && report.at < knownSince;
  const names = namesOf(report);
  return (
    <>
      <p class="fine" data-name="as-of">
        As of <Time at={report.at} />, revision <span class="number">{report.revision}</span> of the
        configuration.
      </p>
      {!report.complete && (
        <p class="warning" role="status">
          {isBefore ? (
            <>
              Who was in the tenant is known since <Time at={knownSince} />. Only the configuration
              of this moment is shown.
            </>
          ) : (
            'Of somebody here it is not known whether they could act: their account was erased, or is older than its record.'
          )}
        </p>
      )}
      <Section title="Who could approve">
        <Approvers report={report} names={names} />
      </Section>
      <Listed
        title="Members"
        items={members}
        keyOf={({ user_id: id }) => id}
        empty="No one is known of this moment."
        columns={columnsOfMembers}
      />
      <Listed
        title="Approver groups"
        items={groups}
        keyOf={(group) => group.name}
        columns={[
          ['Group', (group) => <bdi>{group.name}</bdi>],
          ['Members', (group) => <InGroup group={group} names={names} />],
        ]}
      />
      <Listed
        title="Service accounts"
        items={accounts}
        columns={[
          ['Name', ({ name }) => <bdi>{name}</bdi>],
          ['Roles', ({ roles }) => roleText(roles)],
          ['Status', ({ status }) => status],
        ]}
      />
      <Listed
        title="Visits of the platform"
        items={visits}
        columns={[
          ['Platform administrator', ({ user_id: id }) => <code>{id}</code>],
          ['Begun', ({ created_at: at }) => <Time at={at} />],
          ['Reason', ({ reason }) => <bdi>{reason}</bdi>],
        ]}
      />
      <Rules report={report} names={names} />
    </>
  );
}

/** A section that is one table; left out where it has no rows and nothing is said of that. */
function Listed<Row>({
  title,
  items,
  ...table
}: Pick<Parameters<typeof Table<Row>>[0], 'keyOf' | 'columns' | 'empty'> & {
  readonly title: string;
  readonly items: readonly Row[];
}): VNode | null {
  if (items.length === 0 && table.empty === undefined) return null;
  return (
    <Section title={title} count={items.length}>
      <Table label={title} look="lines" items={items} {...table} />
    </Section>
  );
}

type NameOf = ReadonlyMap<string, string>;

const nameOfMember = ({ display_name: name, email, user_id: id }: Member): string =>
  name ?? email ?? `erased account ${id.slice(0, 8)}`;

const namesOf = ({ members, service_accounts: accounts }: AccessReport): NameOf =>
  new Map([
    ...members.map((member) => [member.user_id, nameOfMember(member)] as const),
    ...accounts.map(({ id, name }) => [id, name] as const),
  ]);

function Names({ ids, names }: { readonly ids: readonly string[]; readonly names: NameOf }): VNode {
  if (ids.length === 0) return <span class="muted">no one</span>;
  return (
    <>
      {ids.map((id, index) => (
        <span key={id}>
          {index > 0 && ', '}
          <bdi>{names.get(id) ?? id}</bdi>
        </span>
      ))}
    </>
  );
}

/** Those who could not decide are said. */
function InGroup({
  group: { members, deciders },
  names,
}: {
  readonly group: AccessReport['groups'][number];
  readonly names: NameOf;
}): VNode {
  const couldDecide = new Set(deciders);
  const others = members.filter((id) => !couldDecide.has(id));
  if (others.length === 0) return <Names ids={members} names={names} />;
  return (
    <>
      {deciders.length > 0 && (
        <div>
          <Names ids={deciders} names={names} />
        </div>
      )}
      <div>
        <Names ids={others} names={names} /> <span class="fine">could not decide</span>
      </div>
    </>
  );
}

const canActText = ({ status, account_status: account, can_act: canAct }: Member): string => {
  if (status === 'invited') return 'no: invited, not accepted';
  if (account === 'disabled') return 'no: account disabled';
  return canAct === null ? 'not known' : 'yes';
};

const columnsOfMembers: Cells<Member> = [
  [
    'Person',
    (member) => (
      <>
        <bdi>{nameOfMember(member)}</bdi>
        {member.display_name !== null && <Below>{member.email}</Below>}
      </>
    ),
  ],
  ['Roles', (member) => roleText(member.roles)],
  ['Approver groups', (member) => member.groups.join(', ') || <span class="muted">none</span>],
  ['Could act', (member) => canActText(member)],
];

const rights: Readonly<Record<Route['deciders'][number]['right'], string>> = {
  group_member: 'as members of a group that was asked',
  groups_without_members: 'as tenant admins, since no one in these groups could',
  role: 'by their role',
  recipient: 'by a mailed link',
  console: 'as the operator of the platform',
};
const whenText = (hop: number): string => {
  if (hop === 0) return 'immediately';
  return hop === 1 ? 'after one escalation' : `after ${hop} escalations`;
};

const Approvers = ({
  report: { approvals },
  names,
}: {
  readonly report: AccessReport;
  readonly names: NameOf;
}): VNode => (
  <>
    <p class="fine">
      The next group is asked after <span class="number">{approvals.window_minutes}</span> minutes,
      at most <span class="number">{approvals.max_hops}</span> times.{' '}
      {approvals.allow_self
        ? 'The requester could decide, too.'
        : 'The requester could not decide.'}{' '}
      {approvals.machines ? 'API keys could decide.' : 'API keys could not decide.'}
    </p>
    <Table
      label="Who could approve"
      look="lines"
      items={approvals.routes}
      keyOf={(route) => `${route.action} ${route.risk_level}`}
      columns={[
        [
          'What',
          (route) =>
            route.action === null ? `${route.risk_level} risk` : <code>{route.action}</code>,
        ],
        [
          { number: 'Needed' },
          (route) => (route.risk_level === null ? 'by risk' : approvals.required[route.risk_level]),
        ],
        [
          'Asked, in order',
          (route) =>
            route.chain.join(', ') || (
              <span class="muted">every operator, reviewer and tenant admin</span>
            ),
        ],
        [
          'Could decide',
          (route) => (
            <>
              {route.deciders.map(({ hop, right, ids }) => (
                <div key={`${hop} ${right}`}>
                  <Names ids={ids} names={names} />{' '}
                  <span class="fine">
                    {rights[right]}, {whenText(hop)}
                  </span>
                </div>
              ))}
              {route.recipients.length > 0 && (
                <div>
                  <bdi>{route.recipients.join(', ')}</bdi>{' '}
                  <span class="fine">by a mailed link, without an account</span>
                </div>
              )}
              {route.deciders.length + route.recipients.length === 0 && (
                <span class="muted">no one</span>
              )}
            </>
          ),
        ],
      ]}
    />
  </>
);

const Rules = ({
  report: { change_sets: changes, bounds, platform_bounds: ofPlatform },
  names,
}: {
  readonly report: AccessReport;
  readonly names: NameOf;
}): VNode => (
  <>
    <Section title="Changes of the configuration">
      {changes.policy === null ? (
        <p>The tenant wanted no approval for them.</p>
      ) : (
        <>
          <p>
            The tenant wanted an approval: <Value value={changes.policy} />
          </p>
          <p>
            Could approve: <Names ids={changes.approvers} names={names} />
          </p>
        </>
      )}
    </Section>
    <Guardrails title="Guardrails of the tenant" bounds={bounds} />
    <Guardrails title="Guardrails of the platform" bounds={ofPlatform} />
  </>
);

const Guardrails = ({
  title,
  bounds,
}: {
  readonly title: string;
  readonly bounds: AccessReport['bounds'];
}): VNode => (
  <Listed
    title={title}
    items={Object.entries(bounds ?? {})}
    keyOf={([key]) => key}
    empty="There was none."
    columns={[
      ['Key', ([key]) => <Code>{key}</Code>],
      ['Rule', ([, rule]) => <Value value={rule} />],
    ]}
  />
);
