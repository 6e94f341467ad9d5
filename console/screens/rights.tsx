/** Roles and approver groups as somebody types them: of a member, or of a group of the directory. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { Choices } from '../dialogs.tsx';
import { roleChoices } from '../roles.ts';
import { Button } from '../inline.tsx';

type Member = ResultOf<'tenant-config.members.list'>['items'][number];

/** The rights of a member as they are typed. */
export interface Typed {
  readonly roles: readonly string[];
  readonly groups: readonly string[];
  /** A group that is typed, and counts also where nobody has chosen Add. */
  readonly another: string;
}

export const groupsTyped = ({ groups, another }: Typed): string[] => {
  const name = another.trim();
  return name === '' ? [...groups] : [...new Set([...groups, name])];
};

/** Whether they are the same roles or groups, in any order. */
export const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.toSorted().join() === other.toSorted().join();

/** Roles, and groups: those that somebody is in already, and a new one. */
export function Rights({
  typed,
  known,
  roles: choices = roleChoices,
  fixed = { roles: [], groups: [] },
  onChange,
}: {
  readonly typed: Typed;
  readonly known: readonly string[];
  readonly roles?: typeof roleChoices;
  /** What groups of the directory give, and is not taken away here. */
  readonly fixed?: Member['by_directory'];
  readonly onChange: (change: Partial<Typed>) => void;
}): VNode {
  const { roles, groups, another } = typed;
  const fixedBy = (names: readonly string[], name: string) =>
    names.includes(name) && { isFixed: true, says: 'given by a group of the directory' };
  const options = [...new Set([...known, ...groups])].map((name) => ({
    name,
    ...fixedBy(fixed.groups, name),
  }));
  const add = (): void => onChange({ groups: groupsTyped(typed), another: '' });
  return (
    <div>
      <Choices
        label="Roles"
        options={choices.map((choice) => ({ ...choice, ...fixedBy(fixed.roles, choice.name) }))}
        chosen={roles}
        onChange={(chosen) => onChange({ roles: chosen })}
      />
      {options.length > 0 && (
        <Choices
          label="Approver groups"
          options={options}
          chosen={groups}
          onChange={(chosen) => onChange({ groups: chosen })}
        />
      )}
      <label>
        Another approver group
        <span class="joined">
          <input
            name="group"
            value={another}
            autocomplete="off"
            spellcheck={false}
            pattern={'[A-Za-z0-9._\\-]{1,64}'}
            placeholder="such as finance"
            onInput={({ currentTarget }) => onChange({ another: currentTarget.value })}
          />
          <Button class="secondary" says="Add" onClick={add} />
        </span>
        <small>
          Letters, digits, dots, dashes and underscores. Approval routing says when a group is
          asked.
        </small>
      </label>
    </div>
  );
}
