/**
 * Approver groups: who is in each, and what asks it. A group that is asked and has nobody who may
 * decide is said so, before it matters.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { hrefOf, ofTenant, wantedText } from '../address.ts';
import { call, getAll } from '../api.ts';
import { Choices, FormDialog } from '../dialogs.tsx';
import { useLive, useLoaded } from '../loading.ts';
import { Field, FilterField, Filters, fitting } from '../fields.tsx';
import { RowButton, Table, Waiting } from '../lists.tsx';
import { Button } from '../inline.tsx';
import { Heading } from '../parts.tsx';
import { decides, roleText } from '../roles.ts';
import { askersOf, groupNames, routesOf, type Routes } from './approver-groups.ts';
import { membersAddress, nameOfMember, statusText, type Member } from './members.tsx';

/** MEMBERS_PER_TENANT by default: a group has who is in it, wherever the list has them. */
const mostMembers = 100_000;

interface Group {
  readonly name: string;
  readonly members: readonly Member[];
  /** What asks it, such as "high risk". */
  readonly askedFor: readonly string[];
}

/** Why somebody in a group does not count. */
const whyNot = (member: Member): string =>
  member.can_act ? roleText(member.roles) : statusText(member);

function groupsIn(members: readonly Member[], routes: Routes): Group[] {
  const askers = askersOf(routes);
  return groupNames(members, askers).map((name) => ({
    name,
    members: members.filter(({ groups }) => groups.includes(name)),
    askedFor: askers.get(name) ?? [],
  }));
}

export function Groups(): VNode {
  const { data, problem, reload } = useLoaded('groups', async (aborted) => {
    const [members, routes] = await Promise.all([
      getAll<Member>(membersAddress(), aborted, mostMembers),
      routesOf(aborted),
    ]);
    return { members, groups: groupsIn(members, routes) };
  });
  useLive(reload, (change) => change.config_type === 'notification_config');
  const [changed, setChanged] = useState<Group>();
  const wanted = wantedText();
  const shown = fitting(data?.groups, ({ name, members }) =>
    [name, ...members.map(({ email }) => email)].join(' '),
  );
  const routes = hrefOf(ofTenant('/documents/notifications'));
  return (
    <section>
      <Heading title="Approver groups">
        {data && <span class="fine number">{data.groups.length}</span>}
        <span class="grow"></span>
        <Button
          says="New group…"
          onClick={() => setChanged({ name: '', members: [], askedFor: [] })}
        />
      </Heading>
      <p class="fine">
        Whom approvals ask first. Which group is asked at which risk is said by the{' '}
        <a href={routes}>approval routing</a>.
      </p>
      <Filters class="question one">
        <FilterField placeholder="group or address" />
      </Filters>
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Approver groups"
        look="lines"
        items={shown}
        keyOf={({ name }) => name}
        empty={
          wanted === ''
            ? 'There is no group yet, so every operator and administrator is asked immediately.'
            : 'None fits the filter.'
        }
        columns={[
          ['Group', ({ name }) => <bdi>{name}</bdi>],
          ['Members', membersOf],
          [
            'Asked for',
            ({ askedFor }) => askedFor.join(', ') || <span class="muted">nothing</span>,
          ],
          [
            { unseen: 'Actions' },
            (group) => (
              <RowButton says="Change…" of={group.name} onClick={() => setChanged(group)} />
            ),
          ],
        ]}
      />
      {changed && data && (
        <ChangeGroup
          group={changed}
          onClose={() => setChanged(undefined)}
          members={data.members}
          onDone={() => {
            setChanged(undefined);
            reload();
          }}
        />
      )}
    </section>
  );
}

function membersOf({ members, askedFor }: Group): VNode {
  const isStuck = askedFor.length > 0 && !members.some(decides);
  return (
    <>
      {members.map((member, index) => (
        <span key={member.user_id}>
          {index > 0 && ', '}
          <bdi title={member.email}>{nameOfMember(member)}</bdi>
          {!decides(member) && <span class="fine">{whyNot(member)}</span>}
        </span>
      ))}
      {members.length === 0 && <span class="muted">no one</span>}
      {isStuck && <div class="warning">No one in it may decide: a tenant admin has to.</div>}
    </>
  );
}

/** Whether the member is to be in the group, and whether they are. */
function ChangeGroup({
  group,
  members,
  onClose,
  onDone,
}: {
  readonly group: Group;
  readonly members: readonly Member[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}): VNode {
  const [name, setName] = useState(group.name);
  const before = group.members.map(({ user_id: id }) => id);
  const [chosen, setChosen] = useState(before);
  const work = async (): Promise<void> => {
    const address = membersAddress();
    // As they are now: somebody may have changed their other groups since the page was loaded.
    const now = await getAll<Member>(address, undefined, mostMembers);
    for (const { user_id: id, groups } of now) {
      if (chosen.includes(id) === before.includes(id)) continue;
      const others = groups.filter((each) => each !== name);
      const body = { groups: chosen.includes(id) ? [...others, name] : others };
      await call('PATCH', `${address}/${id}`, { body });
    }
    onDone();
  };
  const isNew = group.name === '';
  return (
    <FormDialog
      title={isNew ? 'New approver group' : `Members of ${name}`}
      verb="Save"
      work={work}
      onClose={onClose}
    >
      {isNew && (
        <Field
          label="Name"
          name="name"
          required
          spellcheck={false}
          pattern={'[A-Za-z0-9._\\-]{1,64}'}
          value={name}
          onValue={setName}
          hint="Letters, digits, dots, dashes and underscores."
        />
      )}
      <Choices
        label="Members"
        options={members.map((member) => ({
          name: member.user_id,
          title: nameOfMember(member),
          says: `${roleText(member.roles)}${member.can_act ? '' : `, ${statusText(member)}`}`,
        }))}
        chosen={chosen}
        onChange={setChosen}
      />
      <p class="fine">
        A group is there as long as somebody is in it, or a notification route asks it.
      </p>
    </FormDialog>
  );
}
