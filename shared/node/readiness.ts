/**
 * Whether a node can serve, for whoever sends it requests or restarts it.
 *
 * | Status      | Code | Means                                                                                              |
 * |-------------|------|----------------------------------------------------------------------------------------------------|
 * | `ready`     | 200  | everything that it needs answers                                                                   |
 * | `degraded`  | 200  | something is away; what does not need it is answered, and reads from memory                        |
 * | `not_ready` | 503  | nothing can be answered: what it cannot do without is away, and it remembers nothing to answer with |
 * | `stopping`  | 503  | a signal has asked it to end                                                                       |
 *
 * A node whose start has something left to do is `not_ready`: until the first administrator is made
 * (`first_admin`), nobody can sign in to a new installation.
 *
 * A part is present only if it answers: a service that is registered may have been stopped where it
 * is, and the bus may be connected to a server that is silent.
 */
import type { ServiceBroker } from 'moleculer';
import type { Coherence } from '../coherence/coherence.ts';
import { shareAnswer } from './health.ts';
import { nodesOf } from './nodes.ts';
import { askNode } from '../contract-runtime/request.ts';

/** A role that this node hosts. */
export interface ServingRole {
  readonly name: string;
  /** The roles that it calls. */
  readonly calls: readonly string[];
  /** Those of them without which it answers nothing but what it remembers. */
  readonly vital: readonly string[];
  /** With tables of its own it answers from these, not from memory. */
  readonly hasTables?: true;
}

/** What a node does once it serves, with the role that nobody can use before. */
const startWorks = { first_admin: 'auth' } as const satisfies Record<string, string>;
export type StartWork = keyof typeof startWorks;
const namesOfStartWorks = Object.keys(startWorks) as StartWork[];

export const readinessStatuses = ['ready', 'degraded', 'not_ready', 'stopping'] as const;

export interface Readiness {
  readonly status: (typeof readinessStatuses)[number];
  /** By name of a part of the node, or of a role that it calls on other nodes. */
  readonly checks: Readonly<Record<string, boolean>>;
}

export type ReadinessCheck = ReturnType<typeof createReadiness>;

export interface ReadinessOptions {
  readonly broker: ServiceBroker;
  readonly coherence: Coherence;
  readonly roles: readonly ServingRole[];
}

type Health = Readonly<Record<string, boolean>>;

/** A node that does not say in this time how it is cannot be called. */
const nodePatienceMs = 800;

/** The roles that a node with these calls on other nodes. */
export function calledElsewhere(roles: readonly ServingRole[]): string[] {
  const hosted = new Set(roles.map(({ name }) => name));
  const called = new Set(roles.flatMap(({ calls }) => calls));
  return [...called].filter((name) => !hosted.has(name));
}

/** Codes for monitoring, which looks at nothing else. */
export const codeOfReadiness = ({ status }: Readiness): 200 | 503 =>
  status === 'ready' || status === 'degraded' ? 200 : 503;

export function createReadiness(options: ReadinessOptions) {
  const assess = shareAnswer(
    () => assessNode(options),
    ({ status }) => status === 'ready',
  );
  let stopping = false;
  return {
    /** Takes less than a second. */
    async ask(): Promise<Readiness> {
      const { status, checks } = await assess();
      return { status: stopping ? 'stopping' : status, checks };
    },
    /** From now on the node is `stopping`. */
    stop(): void {
      stopping = true;
    },
  };
}

async function assessNode(options: ReadinessOptions): Promise<Readiness> {
  const { broker, roles } = options;
  const [own, remote] = await Promise.all([healthOf(broker, broker.nodeID), askOthers(options)]);
  const checks = { ...remote.database, ...remote.unfinished, ...own, ...remote.roles };
  if (own !== undefined && Object.values(checks).every(Boolean)) return { status: 'ready', checks };
  if (namesOfStartWorks.some((work) => own?.[work] === false))
    return { status: 'not_ready', checks };
  const canAnswer = roles.some((role) => answersAnything(role, checks, options));
  return { status: canAnswer ? 'degraded' : 'not_ready', checks };
}

async function askOthers({ broker, roles }: ReadinessOptions) {
  const elsewhere = calledElsewhere(roles);
  const nodes = nodesOf(broker).filter(
    ({ self, services }) => !self && elsewhere.some((name) => services.includes(name)),
  );
  const asked = await Promise.all(
    nodes.map(async ({ id, services }) => ({ services, health: await healthOf(broker, id) })),
  );
  const answered = asked.filter(({ health }) => health !== undefined);
  const isCallable = (name: string): boolean =>
    answered.some(
      ({ services, health }) => services.includes(name) && !isUnfinished(name, health ?? {}),
    );
  const callable = elsewhere.map((name) => [name, isCallable(name)]);
  const unfinished = namesOfStartWorks.filter(
    (work) =>
      !isCallable(startWorks[work]) && answered.some(({ health }) => health?.[work] === false),
  );
  const databases = answered.flatMap(({ health }) => health?.database ?? []);
  return {
    /** Whether a role that is called can be, by name; without those that this node hosts itself. */
    roles: Object.fromEntries(callable),
    /** What no node of its role has done yet, each as false. */
    unfinished: Object.fromEntries(unfinished.map((work) => [work, false])),
    /** Whether any of those that have a database reaches it; nothing where none says. */
    database: databases.length === 0 ? {} : { database: databases.some(Boolean) },
  };
}

/** Whether a node with this health has yet to do what nobody can use the role without. */
const isUnfinished = (role: string, health: Health): boolean =>
  namesOfStartWorks.some((work) => startWorks[work] === role && health[work] === false);

/** What a node says of itself; undefined where it does not answer in time. */
const healthOf = (broker: ServiceBroker, nodeID: string): Promise<Health | undefined> =>
  askNode(
    broker,
    'cluster.node.health',
    {},
    { requestId: 'health', nodeID, timeout: nodePatienceMs },
  );

/** Whether there is anything that the role can answer now. */
function answersAnything(role: ServingRole, checks: Health, options: ReadinessOptions): boolean {
  const { hasTables = false, vital } = role;
  const isCallable = vital.every((name) => checks[name] !== false);
  // A lease is as good: the database has given it through some node, and memory may just have been
  // emptied for a restart of it.
  const hasDatabase = checks.database === true || (!hasTables && options.coherence.hasLease());
  if (checks.bus && isCallable && hasDatabase) return true;
  return !hasTables && answersFromMemory(role, checks, options);
}

/**
 * Whether reads are answered although their owners are away: whoever asks is heard and known, and
 * something is remembered.
 */
function answersFromMemory(
  { vital }: ServingRole,
  { bus }: Health,
  { coherence: { caches } }: ReadinessOptions,
): boolean {
  const { identity, configuration_service: stored, dynamic_config_service: effective } = caches;
  if (!stored.hasLastKnown() && !effective.hasLastKnown()) return false;
  // The gateway's clients prove who they are. Whoever calls a service over the bus has proved it to
  // a gateway.
  return vital.includes('auth') ? identity.hasLastKnown() : bus === true;
}
