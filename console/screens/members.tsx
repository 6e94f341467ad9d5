/**
 * Members: who belongs to the tenant, with which roles and approver groups; inviting, changing and
 * removing them.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, parameter, tenantShown, wantedText } from '../address.ts';
import { useAction } from '../action.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { useDraft } from '../drafts.ts';
import { useLoaded } from '../loading.ts';
import { type Cells, Notice, RowButton, ShowMore, Table, Waiting } from '../lists.tsx';
import { countOf, usePages, useRows } from '../pages.ts';
import { anyOf, boundTo, Field, FilterField, Filters, SelectField } from '../fields.tsx';
import { Below, Button, State, Time } from '../inline.tsx';
import { Heading } from '../parts.tsx';
import { learnNames } from '../people.ts';
import { roleText } from '../roles.ts';
import { user } from '../session.ts';
import { sortedBy, type Orders } from '../sorting.ts';
import { askersOf, groupNames, routesOf } from './approver-groups.ts';
import { DirectoryGroups } from './directory-groups.tsx';
import { Visits } from './visits.tsx';
import { groupsTyped, isSame, Rights, type Typed } from './rights.tsx';

export type Member = ResultOf<'tenant-config.members.list'>['items'][number];

export const membersAddress = (): string => ofTenant('/users');
export const nameOfMember = ({ display_name: name, email }: Member): string => name ?? email;

/** What keeps somebody from acting, or that nothing does. */
export const statusText = ({ status, account_status: account }: Member): string =>
  account === 'disabled' ? 'account disabled' : status;

const byName = (one: Member, other: Member): number =>
  nameOfMember(one).localeCompare(nameOfMember(other));

const columnsOf = (actions: (member: Member) => VNode): Cells<Member> => [
  [{ sort: 'person', title: 'Person' }, personOf],
  [{ sort: 'roles', title: 'Roles' }, ({ roles }) => roleText(roles)],
  [{ sort: 'groups', title: 'Approver groups' }, (member) => <GroupsOf groups={member.groups} />],
  [
    { sort: 'status', title: 'Status' },
    (member) => (
      <State
        state={member.account_status === 'disabled' ? 'disabled' : member.status}
        says={statusText(member)}
      />
    ),
  ],
  [{ sort: 'since', title: 'Since', look: 'wide' }, ({ added_at: at }) => <Time at={at} />],
  [{ unseen: 'Actions' }, actions],
];
const orders: Orders<Member> = {
  person: nameOfMember,
  roles: ({ roles }) => roleText(roles),
  groups: ({ groups }) => (groups.length === 0 ? null : groups.join(', ')),
  status: statusText,
  since: ({ added_at: at }) => at,
};

/** What is being done, and to whom. */
interface Doing {
  readonly what: 'change' | 'remove';
  readonly member: Member;
}

interface Invitation extends Typed {
  readonly email: string;
}
const newInvitation: Invitation = { email: '', roles: ['viewer'], groups: [], another: '' };

export function Members(): VNode {
  const address = membersAddress();
  const [doing, setDoing] = useState<Doing>();
  const [invitation, setInvitation] = useDraft<Invitation>(`invitation ${tenantShown.value}`);
  const routes = useLoaded('routes', routesOf);
  const [said, setSaid] = useState<string>();
  const again = useAction();
  const [wanted, status, sort] = [wantedText(), parameter('status'), parameter('sort')];
  // Also who is not loaded yet may fit, or be the first.
  const pages = usePages<Member>(address, wanted !== '' || status !== '' || sort !== '');
  const { items: data, isComplete, problem, reload } = pages;
  const found = data?.toSorted(byName).filter((member) => {
    const text = [member.email, member.display_name, ...member.roles, ...member.groups].join(' ');
    return text.toLowerCase().includes(wanted) && (status === '' || member.status === status);
  });
  const { rows, showMore } = useRows(found && sortedBy(found, orders, sort), pages);
  const say = (says: string): void => {
    setSaid(says);
    reload();
  };
  const done = (says: string): void => {
    setDoing(undefined);
    setInvitation(undefined);
    say(says);
  };
  const inviteAgain = ({ user_id: id, email }: Member): void =>
    void again.run(async () => {
      await call('POST', `${address}/${id}/invite`);
      // A form that was opened meanwhile stays.
      say(`${email} is sent another link. The previous one is no longer valid.`);
    });
  const actions = (member: Member): VNode => {
    const name = nameOfMember(member);
    return (
      <>
        {member.status === 'invited' && (
          <RowButton says="Send again" of={`to ${name}`} onClick={() => inviteAgain(member)} />
        )}{' '}
        <RowButton says="Change…" of={name} onClick={() => setDoing({ what: 'change', member })} />{' '}
        <RowButton says="Remove…" of={name} onClick={() => setDoing({ what: 'remove', member })} />
      </>
    );
  };
  const groups = groupNames(data ?? [], routes.data ? askersOf(routes.data) : new Map());
  // What came later would move the button from under a pointer that is pressed.
  const areGroupsKnown = !!(data ?? problem) && !!(routes.data ?? routes.problem);
  return (
    <section>
      <Heading title="Members">
        {data && found && (
          <span class="fine number" role="status">
            {countOf(found.length, data.length, isComplete)}
          </span>
        )}
        <span class="grow"></span>
        <Button says="Invite…" onClick={() => setInvitation(newInvitation)} />
      </Heading>
      <Filters class="question two">
        <SelectField name="status" label="Status" options={anyOf(['active', 'invited'])} />
        <FilterField placeholder="name, address, role or group" />
      </Filters>
      <Notice says={said} />
      <Waiting data={data} problem={problem ?? again.problem} retry={reload} />
      <Table
        label="Members"
        look="lines"
        items={rows}
        keyOf={({ user_id: id }) => id}
        empty={isComplete && 'No one fits the filter.'}
        columns={columnsOf(actions)}
      />
      {showMore && <ShowMore onClick={showMore} />}
      <DirectoryGroups approverGroups={groups} onChanged={reload} />
      <Visits />
      {invitation && areGroupsKnown && (
        <Invite
          address={address}
          groups={groups}
          invitation={invitation}
          onChange={setInvitation}
          onClose={() => setInvitation(undefined)}
          onDone={(says) => {
            done(says);
            void learnNames({ isAgain: true });
          }}
        />
      )}
      {doing?.what === 'change' && (
        <Change
          address={address}
          groups={groups}
          member={doing.member}
          onClose={() => setDoing(undefined)}
          onDone={done}
        />
      )}
      {doing?.what === 'remove' && (
        <Remove
          address={address}
          member={doing.member}
          onClose={() => setDoing(undefined)}
          onDone={done}
        />
      )}
    </section>
  );
}

function personOf(member: Member): VNode {
  const name = nameOfMember(member);
  return (
    <>
      <bdi>{name}</bdi>
      {member.user_id === user.value?.id && <span class="fine"> you</span>}
      {member.managed_by === 'scim' && <span class="fine"> by the directory</span>}
      {name !== member.email && <Below>{member.email}</Below>}
    </>
  );
}

const GroupsOf = ({ groups }: { readonly groups: readonly string[] }): VNode => (
  <>
    {groups.map((group) => (
      <a key={group} class="tag" href={hrefOf(ofTenant(`/groups?q=${encodeURIComponent(group)}`))}>
        {group}
      </a>
    ))}
    {groups.length === 0 && <span class="muted none">–</span>}
  </>
);

interface DialogProperties {
  readonly address: string;
  readonly onClose: () => void;
  readonly onDone: (says: string) => void;
}

function Invite({
  address,
  groups: known,
  invitation,
  onChange,
  onClose,
  onDone,
}: DialogProperties & {
  readonly groups: readonly string[];
  readonly invitation: Invitation;
  readonly onChange: (invitation: Invitation) => void;
}): VNode {
  const { email, roles } = invitation;
  const groups = groupsTyped(invitation);
  const work = async (): Promise<void> => {
    const body = { email: email.trim(), roles, ...(groups.length > 0 && { groups }) };
    const answer = await call<Member>('POST', address, { body });
    onDone(
      answer.body.status === 'active'
        ? `${answer.body.email} is a member now: the tenant's own provider vouches for the address.`
        : `${answer.body.email} is sent a link, good for 7 days. Until it is accepted they have no right here.`,
    );
  };
  return (
    <FormDialog title="Invite a person" verb="Invite" work={work} onClose={onClose}>
      <Field
        label="E-mail"
        type="email"
        required
        maxlength={254}
        {...boundTo(invitation, (change) => onChange({ ...invitation, ...change }))('email')}
      />
      <Rights
        typed={invitation}
        known={known}
        onChange={(change) => onChange({ ...invitation, ...change })}
      />
    </FormDialog>
  );
}

function Change({
  address,
  groups: known,
  member,
  onClose,
  onDone,
}: DialogProperties & { readonly groups: readonly string[]; readonly member: Member }): VNode {
  const [typed, setTyped] = useState<Typed>({
    roles: member.roles,
    groups: member.groups,
    another: '',
  });
  const { roles } = typed;
  const groups = groupsTyped(typed);
  const name = nameOfMember(member);
  const work = async (): Promise<void> => {
    // What was not touched stays as somebody else may have made it meanwhile.
    const body = {
      ...(!isSame(roles, member.roles) && { roles }),
      ...(!isSame(groups, member.groups) && { groups }),
    };
    if (Object.keys(body).length > 0) await call('PATCH', `${address}/${member.user_id}`, { body });
    onDone(`${name} is changed. It holds everywhere immediately.`);
  };
  return (
    <FormDialog title={`Change ${name}`} verb="Save" work={work} onClose={onClose}>
      <Rights
        typed={typed}
        known={known}
        fixed={member.by_directory}
        onChange={(change) => setTyped((before) => ({ ...before, ...change }))}
      />
    </FormDialog>
  );
}

function Remove({
  address,
  member,
  onClose,
  onDone,
}: DialogProperties & { readonly member: Member }): VNode {
  const name = nameOfMember(member);
  const work = async (): Promise<void> => {
    await call('DELETE', `${address}/${member.user_id}`);
    onDone(`${name} is no member any more.`);
  };
  return (
    <FormDialog title={`Remove ${name}`} verb="Remove" isDangerous work={work} onClose={onClose}>
      <p>
        <bdi>{member.email}</bdi> loses every right in this tenant immediately, on every node, and
        so do the API keys that they made for it. What they did stays in history and audit.
      </p>
      {member.groups.length > 0 && (
        <p>Approver groups: {member.groups.join(', ')}. See that somebody is left in them.</p>
      )}
    </FormDialog>
  );
}
