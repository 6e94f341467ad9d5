/**
 * Commands about folders of documents: to take them out, compare them, put them in, and plan what
 * they would change.
 */
import { exitCodes, Misused, type Command, type Flag } from '../command.ts';
import { columns, valueShown } from '../output.ts';
import { Failed } from '../session.ts';
import { given, platformWord, tenantIds, textOf } from '../typed.ts';
import type { ActionName, ResultOf } from '../../shared/contracts/index.ts';
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
const kindOf = (name: string): string => name.split('/')[0]!;

const rowsOf = (steps: readonly Pick<Step, 'name' | 'changes'>[]) =>
  steps.flatMap(({ name, changes }) =>
    changes.map(({ path, before, after }) => ({
      document: name,
      path: path || '/',
      before: valueShown(before),
      after: valueShown(after),
    })),
  );

const prune: Flag = {
  type: 'boolean',
  summary: 'also remove what the folder does not have, of the kinds that it has',
};
const complete = { tenant: tenantIds };

const exportCommand: Command<HttpSession> = {
  name: 'config export',
  parameters: '<tenant> <folder>',
  summary: `write all documents of a tenant, or of the ${platformWord}, into a folder of YAML; secrets as ********`,
  complete,
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
  complete,
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
  summary: `what Strata has otherwise than the folder, also what the folder lacks; only reads, and ends with ${exitCodes.differs} where anything differs`,
  complete,
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
    const found = stepsTo(documentsIn(folder!, tenant!), live, { prune: true })
      .map(({ name, changes }) => ({
        name,
        // From the folder to what there is: the other way round than a diff says what to do.
        changes: changes
          .filter(({ path }) => !isIgnored(name + path))
          .map(({ path, before, after }) => ({ path, before: after, after: before })),
      }))
      .filter(({ changes }) => changes.length > 0);
    answer(found, () => (found.length === 0 ? 'nothing differs' : columns(rowsOf(found))));
    return found.length === 0 ? 0 : exitCodes.differs;
  },
};

const propose: Command<HttpSession> = {
  name: 'propose',
  parameters: '<tenant> <folder>',
  summary: 'make one change set of what differs, and ask for its approval',
  complete,
  flags: {
    prune,
    title: { type: 'string', summary: 'what it is, in a line; the name of the folder by default' },
    reason: { type: 'string', summary: 'why, kept in the history; needed' },
    at: { type: 'string', summary: 'when it is applied, such as 2026-12-01T03:00:00Z' },
    manual: { type: 'boolean', summary: 'it is applied when somebody asks for that' },
    draft: { type: 'boolean', summary: 'nobody is asked for approval yet' },
  },
  async run({ session, args: { tenant, folder }, flags, answer }) {
    const reason = textOf(flags.reason);
    if (reason === undefined) throw new Misused('--reason is missing: approvers read it');
    const live = await liveDocuments(session, tenant!);
    const options = { prune: flags.prune === true };
    const steps = stepsTo(documentsIn(folder!, tenant!), live, options);
    if (steps.length === 0) {
      answer(null, () => 'nothing differs');
      return;
    }
    const at = textOf(flags.at);
    const items = await Promise.all(steps.map((step) => itemOf(session, step, tenant!)));
    const apply = at === undefined ? (flags.manual ? 'manual' : 'on_approval') : { at };
    const body = { title: textOf(flags.title) ?? folder!, reason, items, apply } as const;
    const address = tenant === platformWord ? {} : { tenant_id: tenant! };
    const kind = tenant === platformWord ? 'global-config' : 'tenant-config';
    const call = (step: 'create' | 'submit', params: object): Promise<ChangeSet> =>
      session.call(`${kind}.changesets.${step}`, { ...address, ...params } as never);
    const made = await call('create', { body });
    const set = flags.draft ? made : await call('submit', { changeset_id: made.id });
    answer(set, () =>
      [
        columns(
          set.changes.map(({ resource, path, before, after }) => ({
            document: resource,
            path: path || '/',
            before: valueShown(before),
            after: valueShown(after),
          })),
        ),
        '',
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
  summary: 'write what differs, document by document, each only if nobody else wrote it meanwhile',
  complete,
  flags: {
    prune,
    'dry-run': { type: 'boolean', summary: 'check and show the changes, write nothing' },
    reason: { type: 'string', summary: 'why, kept in the history' },
  },
  async run({ session, args: { tenant, folder }, flags, answer }) {
    const wanted = documentsIn(folder!, tenant!);
    const live = await liveDocuments(session, tenant!);
    const steps = stepsTo(wanted, live, { prune: flags.prune === true });
    const options = { dry_run: flags['dry-run'], reason: textOf(flags.reason) };
    const done: { document: string; outcome: string; revision?: number; changes?: unknown }[] = [];
    for (const step of steps) {
      const written = await write(session, step, tenant!, options).catch((error: unknown) => {
        throw afterwards(error, step.name, done.length);
      });
      done.push({ document: step.name, ...written });
    }
    answer(done, () => {
      if (flags['dry-run']) return columns(rowsOf(steps));
      return done.length === 0 ? 'nothing differs' : columns(done);
    });
  },
};

/** One document, under the condition that it is still what was compared. */
async function write(
  session: HttpSession,
  { name, before, after }: Step,
  tenant: string,
  options: { dry_run: unknown; reason: string | undefined },
): Promise<{ outcome: string; revision?: number; changes?: unknown }> {
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
function afterwards(error: unknown, name: string, done: number): unknown {
  if (!(error instanceof Failed)) return error;
  const before = done === 0 ? 'nothing was written' : `${done} before it were written`;
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
  options: { prune: boolean },
): Promise<{ items: PlanItem[]; plan: Plan | undefined }> {
  const steps = stepsTo(
    documentsIn(folder, platformWord),
    await liveDocuments(session, platformWord),
    options,
  );
  const items: PlanItem[] = steps.map(({ name, after }) =>
    after === undefined
      ? { action: 'delete', path: pathOf(name, platformWord) }
      : { action: 'put', path: pathOf(name, platformWord), body: after },
  );
  const plan = await wholePlan(session, items);
  const changed = new Set(plan?.changes.map(({ resource }) => resource));
  const effective = items.filter(({ path }) => changed.has(path));
  if (effective.length === items.length) return { items, plan };
  return { items: effective, plan: await wholePlan(session, effective) };
}

/** Continues until every tenant was looked at. */
async function wholePlan(session: HttpSession, items: PlanItem[]): Promise<Plan | undefined> {
  if (items.length === 0) return undefined;
  let plan = await session.call('global-config.plan', { body: { items, limit: 200 } });
  const affected = [...plan.impact.items];
  while (!plan.complete && plan.impact.next_cursor !== null) {
    const body = { items, limit: 200, cursor: plan.impact.next_cursor };
    plan = await session.call('global-config.plan', { body });
    affected.push(...plan.impact.items);
  }
  return { ...plan, impact: { ...plan.impact, items: affected } };
}

function planShown({ changes, impact, digest }: Plan): string {
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
    columns(
      changes.map(({ resource, path, before, after }) => ({
        document: resource,
        path: path || '/',
        before: valueShown(before),
        after: valueShown(after),
      })),
    ),
    '',
    `Of ${total} tenants ${changed} change, ${shielded} are not affected, ${clamped} are limited by a guardrail; ${invalid} stored documents would be rejected.`,
    ...(affected.length === 0 ? [] : [columns(affected), ...more]),
    '',
    `digest ${digest}`,
  ].join('\n');
}

const plan: Command<HttpSession> = {
  name: 'plan',
  parameters: '<folder>',
  summary: `what a folder of the platform's documents would change for every tenant; ends with ${exitCodes.differs} where anything would`,
  flags: { prune },
  async run({ session, args: { folder }, flags, answer }) {
    const made = await planOf(session, folder!, { prune: flags.prune === true });
    answer(made.plan ?? { changes: [], digest: null }, () =>
      made.plan ? planShown(made.plan) : 'nothing differs',
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
  },
  async run({ session, args: { folder }, flags, answer }) {
    const digest = textOf(flags.digest);
    if (digest === undefined)
      throw new Misused(`--digest is missing: strata plan ${folder} shows it`);
    const { items } = await planOf(session, folder!, { prune: flags.prune === true });
    if (items.length === 0) {
      answer({ items: [] }, () => 'nothing differs');
      return;
    }
    const body = given({ digest, items, reason: textOf(flags.reason) });
    const applied = await session.call(
      'global-config.plan.apply',
      given({ body, break_glass: textOf(flags['break-glass']) }),
    );
    answer(applied, () => columns(applied.items));
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
