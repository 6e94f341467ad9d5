/** What the groups of the tenant's directory give; nothing is shown where it has none. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant } from '../address.ts';
import { call, getAll } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { RowButton, Table, Waiting } from '../lists.tsx';
import { useList } from '../loading.ts';
import { roleChoices, roleText } from '../roles.ts';
import { groupsTyped, isSame, Rights, type Typed } from './rights.tsx';

type Group = ResultOf<'tenant-config.directory-groups.list'>['items'][number];

const orNothing = (text: string) => (text === '' ? <span class="muted">–</span> : text);

export function DirectoryGroups({
  approverGroups,
  onChanged,
}: {
  /** The names to choose from. */
  readonly approverGroups: readonly string[];
  readonly onChanged: () => void;
}): VNode | null {
  const address = ofTenant('/directory-groups');
  const { data, problem, reload } = useList<Group>(address);
  const [changing, setChanging] = useState<Group>();
  // Most tenants have no directory, and are not told that one is looked for.
  if (!problem && !data?.length) return null;
  const groups = data?.toSorted((one, other) => one.display_name.localeCompare(other.display_name));
  return (
    <section>
      <h2>Groups of the directory</h2>
      <p class="fine">The directory says who is in one. What that gives is said here.</p>
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Groups of the directory"
        look="lines"
        items={groups}
        columns={[
          ['Group', (group) => <bdi>{group.display_name}</bdi>],
          [{ number: 'People' }, (group) => group.members],
          ['Roles', (group) => orNothing(roleText(group.roles))],
          ['Approver groups', (group) => orNothing(group.groups.join(', '))],
          [
            { unseen: 'Actions' },
            (group) => (
              <RowButton
                says="Change…"
                of={`what ${group.display_name} gives`}
                onClick={() => setChanging(group)}
              />
            ),
          ],
        ]}
      />
      {changing && (
        <Change
          address={address}
          group={changing}
          approverGroups={approverGroups}
          onClose={() => setChanging(undefined)}
          onDone={() => {
            setChanging(undefined);
            reload();
            onChanged();
          }}
        />
      )}
    </section>
  );
}

/** No group gives it. */
const roles = roleChoices.filter(({ name }) => name !== 'tenant_admin');

function Change({
  address,
  group,
  approverGroups,
  onClose,
  onDone,
}: {
  readonly address: string;
  readonly group: Group;
  readonly approverGroups: readonly string[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}): VNode {
  const [typed, setTyped] = useState<Typed>({ ...group, another: '' });
  const work = async (): Promise<void> => {
    // What was not touched stays as somebody else may have made it meanwhile.
    const now = (await getAll<Group>(address)).find(({ id }) => id === group.id) ?? group;
    const groups = groupsTyped(typed);
    const body = {
      roles: isSame(typed.roles, group.roles) ? now.roles : typed.roles,
      groups: isSame(groups, group.groups) ? now.groups : groups,
    };
    await call('PUT', `${address}/${group.id}`, { body });
    onDone();
  };
  const title = `What ${group.display_name} gives`;
  return (
    <FormDialog title={title} verb="Save" work={work} onClose={onClose}>
      <p>
        Everybody in it has this immediately, beside what they were given here. Now{' '}
        {group.members === 1 ? '1 person is' : `${group.members} people are`} in it.
      </p>
      <Rights
        typed={typed}
        known={approverGroups}
        roles={roles}
        onChange={(change) => setTyped((before) => ({ ...before, ...change }))}
      />
    </FormDialog>
  );
}
