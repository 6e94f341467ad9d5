/**
 * Commands about folders of documents: to take them out, compare them, put them in, and plan what
 * they would change.
 */
import { exitCodes, Misused, type Command, type Flag } from '../command.ts';
import { columns, valueShown } from '../output.ts';
import { Failed, interrupted } from '../session.ts';
import { given, platformWord, textOf } from '../typed.ts';
import type { ActionName, ResultOf } from '../../shared/contracts/index.ts';
import type { ManagedField } from '../../shared/contracts/managed-fields.ts';
import type { PlanItem } from '../../shared/contracts/plan.ts';
import { diff, type Difference } from '../../shared/schema/diff.ts';
import {
  addressOf,
  bodyOf,
  documentsIn,
  isThere,
  liveDocuments,
  pathOf,
  writeDocuments,
  type Body,
  type Documents,
} from './documents.ts';
import type { HttpSession } from './http-session.ts';
import {
  claimsOf,
  managedBy,
  managedFields,
  ownerFlags,
  takenOver,
  takenShown,
  unclaimed,
} from './managed.ts';

interface Step {
  readonly name: string;
  readonly before: Body | undefined;
  readonly after: Body | undefined;
  readonly changes: readonly Difference[];
}

/**
 * What has to be done for Strata to have what the folder has. What the folder does not have stays,
 * unless `prune`.
 */
function stepsTo(wanted: Documents, live: Documents, { prune }: { prune: boolean }): Step[] {
  const kinds = new Set([...wanted.keys()].map(kindOf));
  const unwanted = [...live.keys()].filter((name) => !wanted.has(name) && kinds.has(kindOf(name)));
  const names = [...wanted.keys(), ...(prune ? unwanted : [])].sort();
  return names
    .map((name) => {
      const before = live.get(name);
      const after = wanted.get(name);
      return { name, before, after, changes: diff(before, after) };
    })
    .filter(({ changes }) => changes.length > 0);
}

/** With what a folder that owns its fields does not own yet. */
async function stepsOfOwner(
  session: HttpSession,
  wanted: Documents,
  live: Documents,
  tenant: string,
  { prune: isPruned, folder }: { readonly prune: boolean; readonly folder: string | undefined },
) {
  const steps = stepsTo(wanted, live, { prune: isPruned });
  if (folder === undefined) return { steps, taken: [] };
  const managed = await managedFields(session, tenant);
  const differing = new Set(steps.map(({ name }) => name));
  const claims = unclaimed(wanted, managed, tenant, folder)
    .filter((name) => !differing.has(name))
    .map((name): Step => ({ name, before: live.get(name), after: wanted.get(name), changes: [] }));
  const all = [...steps, ...claims].sort((one, other) => (one.name < other.name ? -1 : 1));
  return {
    steps: all,
    taken: takenOver(
      all.map(({ name }) => name),
      managed,
      tenant,
      folder,
    ),
  };
}
const kindOf = (name: string): string => name.split('/')[0]!;

const rowOf = (document: string, { path, before, after }: Difference) => ({
  document,
  path: path || '/',
  before: valueShown(before),
  after: valueShown(after),
});
const rowsOf = (steps: readonly Pick<Step, 'name' | 'changes'>[]) =>
  steps.flatMap(({ name, changes }) => changes.map((each) => rowOf(name, each)));

const prune: Flag = {
  type: 'boolean',
  summary: 'also remove what the folder does not have, of the kinds that it has',
};

const exportCommand: Command<HttpSession> = {
  name: 'config export',
  parameters: '<tenant> <folder>',
  summary: `write all documents of a tenant, or of the ${platformWord}, into a folder of YAML; secrets as ********`,
  flags: {
    overwrite: { type: 'boolean', summary: 'also where the folder has documents already' },
  },
  async run({ session, args: { tenant, folder }, flags, answer }) {
    const isFull = isThere(folder!) && documentsIn(folder!, tenant!).size > 0;
    if (isFull && !flags.overwrite)
      throw new Misused(`${folder} has documents; --overwrite replaces them`);
    const documents = await liveDocuments(session, tenant!);
    const files = writeDocuments(folder!, documents, tenant!);
    answer({ folder, files }, () => files.join('\n'));
  },
};

const diffCommand: Command<HttpSession> = {
  name: 'config diff',
  parameters: '<tenant> <folder>',
  summary: `what a folder would change; ends with ${exitCodes.differs} where anything differs`,
  flags: { prune },
  async run({ session, args: { tenant, folder }, flags, answer }) {
    const wanted = documentsIn(folder!, tenant!);
    const live = await liveDocuments(session, tenant!);
    const steps = stepsTo(wanted, live, { prune: flags.prune === true });
    const shown = steps.map(({ name, changes }) => ({ name, changes }));
    answer(shown, () => (steps.length === 0 ? 'nothing differs' : columns(rowsOf(steps))));
    return steps.length === 0 ? 0 : exitCodes.differs;
  },
};

const drift: Command<HttpSession> = {
  name: 'drift',
  parameters: '<tenant> <folder>',
  summary: `what Strata has otherwise than the folder, also what the folder lacks, and what was taken over from folders; only reads, and ends with ${exitCodes.differs} where anything differs`,
  flags: {
    ignore: {
      type: 'string',
      summary: 'places that may differ, with commas: risk/global_settings, agent/scaler/labels',
    },
  },
  async run({ session, args: { tenant, folder }, flags, answer }) {
    const ignored = (textOf(flags.ignore) ?? '').split(',').filter((place) => place !== '');
    const isIgnored = (place: string): boolean =>
      ignored.some((each) => place === each || place.startsWith(`${each}/`));
    const live = await liveDocuments(session, tenant!);
    const wanted = documentsIn(folder!, tenant!);
    const found = stepsTo(wanted, live, { prune: true })
      .map(({ name, changes }) => ({
        name,
        // From the folder to what there is: the other way round than a diff says what to do.
        changes: changes
          .filter(({ path }) => !isIgnored(name + path))
          .map(({ path, before, after }) => ({ path, before: after, after: before })),
      }))
      .filter(({ changes }) => changes.length > 0);
    const managed = await managedFields(session, tenant!);
    const taken = takenOver(new Set([...wanted.keys(), ...live.keys()]), managed, tenant!);
    const shown = found.map(({ name, changes }) => {
      const fields = taken.find(({ document }) => document === name)?.fields;
      return { name, changes, ...(fields && { taken_over: fields }) };
    });
    answer(shown, () =>
      [found.length === 0 ? 'nothing differs' : columns(rowsOf(found)), ...takenShown(taken)].join(
        '\n',
      ),
    );
    return found.length === 0 ? 0 : exitCodes.differs;
  },
};

const propose: Command<HttpSession> = {
  name: 'propose',
  parameters: '<tenant> <folder>',
  summary: 'make one change set of what differs, and ask for its approval',
  flags: {
    prune,
    title: { type: 'string', summary: 'what it is, in a line; the name of the folder by default' },
    reason: { type: 'string', summary: 'why, kept in the history; needed' },
    at: { type: 'string', summary: 'when it is applied, such as 2026-12-01T03:00:00Z' },
    manual: { type: 'boolean', summary: 'it is applied when somebody asks for that' },
    draft: { type: 'boolean', summary: 'no one is asked for approval yet' },
    ...ownerFlags,
  },
  async run({ session, args: { tenant, folder }, flags, answer }) {
    const reason = textOf(flags.reason);
    if (reason === undefined) throw new Misused('--reason is missing: approvers read it');
    const live = await liveDocuments(session, tenant!);
    const claims = claimsOf(flags);
    const options = { prune: flags.prune === true, folder: claims.managed_by };
    const wanted = documentsIn(folder!, tenant!);
    const { steps, taken } = await stepsOfOwner(session, wanted, live, tenant!, options);
    if (steps.length === 0) {
      answer(null, () => 'nothing differs');
      return;
    }
    const at = textOf(flags.at);
    const items = await Promise.all(steps.map((step) => itemOf(session, step, tenant!)));
    const apply = at === undefined ? (flags.manual ? 'manual' : 'on_approval') : { at };
    const title = textOf(flags.title) ?? folder!;
    const body = { title, reason, items, apply, ...claims } as const;
    const address = tenant === platformWord ? {} : { tenant_id: tenant! };
    const kind = tenant === platformWord ? 'global-config' : 'tenant-config';
    const call = (step: 'create' | 'submit', params: object): Promise<ChangeSet> =>
      session.call(`${kind}.changesets.${step}`, { ...address, ...params } as never);
    const made = await call('create', { body });
    const set = flags.draft ? made : await call('submit', { changeset_id: made.id });
    answer(set, () =>
      [
        columns(set.changes.map((each) => rowOf(each.resource, each))),
        '',
        ...takenShown(taken),
        `${set.state} ${set.id}, ${set.required} to approve digest ${set.digest}`,
      ].join('\n'),
    );
  },
};
type ChangeSet = ResultOf<'tenant-config.changesets.create'>;

/** One write, under the condition that the document is still what was compared. */
async function itemOf(session: HttpSession, { name, before, after }: Step, tenant: string) {
  const if_match =
    before === undefined ? {} : { if_match: await tagOf(session, name, before, tenant) };
  const path = pathOf(name, tenant);
  return after === undefined
    ? ({ action: 'delete', path, ...if_match } as const)
    : ({ action: 'put', path, body: after, ...if_match } as const);
}

const importCommand: Command<HttpSession> = {
  name: 'config import',
  parameters: '<tenant> <folder>',
  summary:
    'write what differs, document by document, each only if no one else has written it since',
  flags: {
    prune,
    'dry-run': { type: 'boolean', summary: 'check and show the changes, write nothing' },
    reason: { type: 'string', summary: 'why, kept in the history' },
    ...ownerFlags,
  },
  async run({ session, args: { tenant, folder }, flags, answer, signal }) {
    const wanted = documentsIn(folder!, tenant!);
    const live = await liveDocuments(session, tenant!);
    const claims = claimsOf(flags);
    const { steps, taken } = await stepsOfOwner(session, wanted, live, tenant!, {
      prune: flags.prune === true,
      folder: claims.managed_by,
    });
    const options = { dry_run: flags['dry-run'], reason: textOf(flags.reason), ...claims };
    const done: (Outcome & { document: string; taken_over?: readonly ManagedField[] })[] = [];
    for (const step of steps) {
      const written = await write(session, step, tenant!, options).catch((error: unknown) => {
        const isStopped = signal.aborted;
        throw afterwards(error, step.name, {
          written: flags['dry-run'] ? 0 : done.length,
          isStopped,
        });
      });
      const fields = taken.find(({ document }) => document === step.name)?.fields;
      done.push({ document: step.name, ...written, ...(fields && { taken_over: fields }) });
    }
    answer(done, () => {
      if (flags['dry-run']) return [columns(rowsOf(steps)), ...takenShown(taken)].join('\n');
      if (done.length === 0) return 'nothing differs';
      const rows = done.map(({ taken_over: _fields, ...row }) => row);
      return [columns(rows), ...takenShown(taken)].join('\n');
    });
  },
};

/** One document, under the condition that it is still what was compared. */
async function write(
  session: HttpSession,
  { name, before, after }: Step,
  tenant: string,
  options: { dry_run: unknown; reason: string | undefined } & ReturnType<typeof claimsOf>,
): Promise<Outcome> {
  const { resource, params } = addressOf(name, tenant);
  const stillThat =
    before === undefined
      ? { if_none_match: '*' }
      : { if_match: await tagOf(session, name, before, tenant) };
  const written = (await session.call(
    `${resource.prefix}.${after === undefined ? 'delete' : 'put'}` as ActionName,
    given({ ...params, body: after, ...stillThat, ...options }),
  )) as Written | { readonly dry_run: true; readonly changes: unknown };
  return 'dry_run' in written
    ? { outcome: 'dry run', changes: written.changes }
    : { outcome: written.outcome, revision: written.revision };
}
interface Outcome {
  readonly outcome: string;
  readonly revision?: number;
  readonly changes?: unknown;
}
interface Written {
  readonly outcome: string;
  readonly revision: number;
}

/**
 * The entity tag of a document that is what was compared: lists do not have it. Throws Failed where
 * it is another by now.
 */
async function tagOf(
  session: HttpSession,
  name: string,
  compared: Body,
  tenant: string,
): Promise<string> {
  const { resource, params } = addressOf(name, tenant);
  const { document, revision } = (await session.call(
    `${resource.prefix}.get` as ActionName,
    params,
  )) as { readonly document: Body; readonly revision: number };
  if (diff(compared, bodyOf(resource, document)).length === 0) return `"${revision}"`;
  throw new Failed('precondition_failed', 'somebody wrote it while it was compared; try again');
}

/** Says at which document an import stopped, and how many were written before. */
function afterwards(
  error: unknown,
  name: string,
  { written, isStopped }: { readonly written: number; readonly isStopped: boolean },
): unknown {
  if (!(error instanceof Failed)) return error;
  const before =
    written === 0 ? 'nothing was written before it' : `${written} before it were written`;
  // What was on its way may have arrived.
  if (isStopped) return new Failed(interrupted, `${name} may have been written (${before})`);
  return new Failed(error.code, `${name}: ${error.message} (${before})`, {
    problems: error.problems,
    ...(error.requestId !== undefined && { requestId: error.requestId }),
  });
}

type Plan = ResultOf<'global-config.plan'>;

/**
 * The folder as writes of the platform: those alone that change something, in an order that is
 * always the same.
 */
async function planOf(
  session: HttpSession,
  folder: string,
  options: { prune: boolean; folder: string | undefined },
) {
  const { steps, taken } = await stepsOfOwner(
    session,
    documentsIn(folder, platformWord),
    await liveDocuments(session, platformWord),
    platformWord,
    options,
  );
  const items: PlanItem[] = steps.map(({ name, after }) =>
    after === undefined
      ? { action: 'delete', path: pathOf(name, platformWord) }
      : { action: 'put', path: pathOf(name, platformWord), body: after },
  );
  const plan = await wholePlan(session, items);
  const changed = new Set(plan?.changes.map(({ resource }) => resource));
  const effective = items.filter(
    ({ path }, index) => changed.has(path) || steps[index]!.changes.length === 0,
  );
  if (effective.length === items.length) return { items, plan, taken };
  return { items: effective, plan: await wholePlan(session, effective), taken };
}

/** Continues until every tenant was looked at. */
async function wholePlan(session: HttpSession, items: PlanItem[]): Promise<Plan | undefined> {
  if (items.length === 0) return undefined;
  let plan = await session.call('global-config.plan', { body: { items, limit: 200 } });
  const { over_time } = plan;
  const affected = [...plan.impact.items];
  while (!plan.complete && plan.impact.next_cursor !== null) {
    const body = { items, limit: 200, cursor: plan.impact.next_cursor };
    plan = await session.call('global-config.plan', { body });
    affected.push(...plan.impact.items);
  }
  return { ...plan, impact: { ...plan.impact, items: affected }, ...(over_time && { over_time }) };
}

/** What changed budgets and freezes mean in tenants; nothing where none changes. */
function limitsShown(overTime: Plan['over_time']): string[] {
  if (overTime === undefined) return [];
  const rows = overTime.items.map(
    ({ tenant_name, limit, name, effect, running, waiting, ...more }) => ({
      tenant: tenant_name,
      limit,
      name,
      effect,
      remaining: more.remaining ?? '',
      from: more.from ?? '',
      running,
      waiting,
    }),
  );
  const counts = Object.entries(overTime.tenants)
    .map(([effect, count]) => `${count} ${effect}`)
    .join(', ');
  const more = overTime.complete ? '' : ' There are more than were looked at.';
  return [
    '',
    `Limits over time, in tenants: ${counts}.${more}`,
    ...(rows.length > 0 ? [columns(rows)] : []),
  ];
}

function planShown({ changes, impact, digest, over_time: overTime }: Plan): string {
  const { total, changed, shielded, invalid, clamped } = impact.tenants;
  const affected = impact.items.map((item) => ({
    tenant: item.tenant_name,
    for: Object.values(item.context).join(' ') || 'all',
    key: item.key,
    before: valueShown(item.before),
    after: valueShown(item.after),
    by: item.decided_by,
    ...(item.problem !== undefined && { problem: item.problem }),
  }));
  const more = impact.next_cursor === null ? [] : ['… and more; --json has the cursor'];
  return [
    columns(changes.map((each) => rowOf(each.resource, each))),
    '',
    `Of ${total} tenants ${changed} change, ${shielded} are not affected, ${clamped} are limited by a guardrail; ${invalid} stored documents would be rejected.`,
    ...(affected.length === 0 ? [] : [columns(affected), ...more]),
    ...limitsShown(overTime),
    '',
    `digest ${digest}`,
  ].join('\n');
}

const plan: Command<HttpSession> = {
  name: 'plan',
  parameters: '<folder>',
  summary: `what a folder of the platform's documents would change for every tenant; ends with ${exitCodes.differs} where anything would`,
  flags: { prune, 'managed-by': managedBy },
  async run({ session, args: { folder }, flags, answer }) {
    const options = { prune: flags.prune === true, folder: textOf(flags['managed-by']) };
    const made = await planOf(session, folder!, options);
    answer(made.plan ?? { changes: [], digest: null }, () =>
      made.plan ? [...takenShown(made.taken), planShown(made.plan)].join('\n') : 'nothing differs',
    );
    return made.plan ? exitCodes.differs : 0;
  },
};

const apply: Command<HttpSession> = {
  name: 'apply',
  parameters: '<folder>',
  summary: 'write what was planned, all of it or nothing; refused where anything moved since',
  flags: {
    digest: { type: 'string', summary: 'what plan showed; needed' },
    prune,
    reason: { type: 'string', summary: 'why, kept in the history' },
    'break-glass': { type: 'string', summary: 'why it cannot wait for approval, in an emergency' },
    ...ownerFlags,
  },
  async run({ session, args: { folder }, flags, answer }) {
    const digest = textOf(flags.digest);
    if (digest === undefined)
      throw new Misused(`--digest is missing: strata plan ${folder} shows it`);
    const claims = claimsOf(flags);
    const options = { prune: flags.prune === true, folder: claims.managed_by };
    const { items, taken } = await planOf(session, folder!, options);
    if (items.length === 0) {
      answer({ items: [] }, () => 'nothing differs');
      return;
    }
    const body = given({ digest, items, reason: textOf(flags.reason) });
    const applied = await session.call(
      'global-config.plan.apply',
      given({ body, break_glass: textOf(flags['break-glass']), ...claims }),
    );
    answer(applied, () => [columns(applied.items), ...takenShown(taken)].join('\n'));
  },
};

export const folderCommands: readonly Command<HttpSession>[] = [
  exportCommand,
  importCommand,
  diffCommand,
  drift,
  propose,
  plan,
  apply,
];
