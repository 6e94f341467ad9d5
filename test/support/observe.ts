/**
 * Clients that write and read all the time on every gateway, and a platform service that reads over
 * the bus: what history-checker.ts judges.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, isAlive, type Cluster } from './cluster.ts';
import { rightRegister, type Observed, type WentBack } from './history-checker.ts';
import { Client, memberPassword, signIn, type Answer, type Running } from './strata.ts';

/** One read, as a client of a gateway asks it and as a platform service does. */
interface Question {
  readonly path: string;
  readonly action: string;
  readonly params: object;
}
/** Where questions are asked: a gateway, or a platform service. */
interface Place {
  readonly node: Running;
  readonly name: string;
  readonly ask: (question: Question) => Promise<Answer>;
}

/** A number that is kept in one place of the configuration. */
interface Register extends Question {
  readonly name: string;
  /** Written by the platform administrator, else by the tenant's. */
  readonly platform?: true;
  /** Read only as a part of merged answers, which is where bounds hold. */
  readonly onlyMerged?: true;
  readonly body: (value: number) => unknown;
  readonly value: (body: Answer['body']) => number | undefined;
}

const registers = (tenantId: string): readonly Register[] => [
  {
    name: 'risk',
    path: `/tenants/${tenantId}/config/risk`,
    action: 'tenant-config.risk.get',
    params: { tenant_id: tenantId },
    body: (value) => ({
      global_settings: { max_cost_impact_auto: value, max_cost_impact_approval: value },
      service_overrides: { cloud_run: { risk_register: value } },
    }),
    value: (body: { service_overrides: { cloud_run: { risk_register?: number } } }) =>
      body.service_overrides.cloud_run?.risk_register,
  },
  {
    name: 'agent',
    path: `/tenants/${tenantId}/config/agents/register`,
    action: 'tenant-config.agents.get',
    params: { tenant_id: tenantId, agent_type: 'register' },
    body: (value) => ({ custom: { value } }),
    value: (body: { custom?: { value: number } }) => body.custom?.value,
  },
  {
    name: 'instance',
    path: `/tenants/${tenantId}/services/register`,
    action: 'tenant-config.services.get',
    params: { tenant_id: tenantId, service_id: 'register' },
    body: (value) => ({ service_type: 'cloud_run', custom_thresholds: { value } }),
    value: (body: { custom_thresholds?: { value: number } }) => body.custom_thresholds?.value,
  },
  {
    name: 'global',
    path: '/config/global/register',
    action: 'global-config.entries.get',
    params: { key: 'register' },
    platform: true,
    body: (value) => ({ config_value: value, is_public: true }),
    value: (body: { config_value: number }) => body.config_value,
  },
  {
    name: 'tenant bound',
    path: `/tenants/${tenantId}/config/bounds`,
    action: 'tenant-config.bounds.get',
    params: { tenant_id: tenantId },
    onlyMerged: true,
    body: (value) => ({ tenant_bound_register: { const: value } }),
    value: (body: { tenant_bound_register?: { const: number } }) =>
      body.tenant_bound_register?.const,
  },
  {
    name: 'platform bound',
    path: '/config/bounds',
    action: 'global-config.bounds.get',
    params: {},
    platform: true,
    onlyMerged: true,
    body: (value) => ({ platform_bound_register: { const: value } }),
    value: (body: { platform_bound_register?: { const: number } }) =>
      body.platform_bound_register?.const,
  },
];

/** A merged answer, and the configurations that it holds. */
interface View extends Question {
  readonly configurations: (body: Answer['body']) => readonly Values[];
}
interface Values {
  readonly risk_register?: number;
  readonly max_cost_impact_auto?: number;
  readonly custom?: { readonly value?: number };
  readonly custom_thresholds?: { readonly value?: number };
  readonly register?: number;
  readonly tenant_bound_register?: number;
  readonly platform_bound_register?: number;
}

/**
 * Beside the agent that is a register, so that the answer about all agents shows the risk limits
 * twice.
 */
const agentBeside = 'register-beside';

function views(tenantId: string): readonly View[] {
  const effective = (context: Record<string, string>): View => ({
    path: `/tenants/${tenantId}/config/effective?${new URLSearchParams(context).toString()}`,
    action: 'config-resolver.resolve',
    params: { tenant_id: tenantId, ...context },
    configurations: ({ values }: { values: Values }) => [values],
  });
  return [
    effective({ agent_type: 'register', service_id: 'register', service_type: 'cloud_run' }),
    effective({ agent_type: 'register' }),
    {
      path: '/configurations/',
      action: 'config-resolver.configurations',
      params: { tenant_id: tenantId },
      configurations: ({ configurations }: { configurations: Record<string, Values> }) =>
        ['register', agentBeside].map((agent) => configurations[agent] ?? {}),
    },
    effective({ service_id: 'register' }),
  ];
}

/** What each register is in merged configurations, wherever it shows. */
function shownIn(configurations: readonly Values[]): Map<string, Set<number>> {
  const shown = new Map<string, Set<number>>();
  const add = (register: string, value: number | undefined): void => {
    // Until a register is written for the first time, a default of another size may be there.
    if (value === undefined || value < firstValue) return;
    shown.set(register, (shown.get(register) ?? new Set()).add(value));
  };
  for (const values of configurations) {
    add('risk', values.risk_register);
    add('risk', values.max_cost_impact_auto);
    add('agent', values.custom?.value);
    add('instance', values.custom_thresholds?.value);
    add('global', values.register);
    add('tenant bound', values.tenant_bound_register);
    add('platform bound', values.platform_bound_register);
  }
  return shown;
}

/** Values begin at the clock, so that they continue increasing from one observation to the next. */
const firstValue = Date.UTC(2020, 0);

/** Undefined for merged answers, whose layers have revisions of their own. */
function revisionOf({ headers }: Answer): number | undefined {
  const revision = headers.get('x-config-revision');
  return revision === null ? undefined : Number(revision);
}
export const freshOnes = <Read extends { readonly stale: boolean }>(
  reads: readonly Read[],
): Read[] => reads.filter(({ stale }) => !stale);
const isStale = ({ headers }: Answer): boolean => headers.get('x-config-stale') === 'true';

/**
 * With fewer answered writes, and five times as many reads, a history says nothing: clients continue
 * until there are so many, as they soon are when the fault is over. Machines are slow.
 */
export const minWrites = 5;
const longestMs = 60_000;

/** How often nodes are looked for that have joined. */
const lookAgainMs = 20;

export interface ObserveOptions {
  /** How long clients continue after `during` has ended. */
  readonly afterMs?: number;
  /**
   * How long each client waits between two requests. The less, the more of the machine all of them
   * together take.
   */
  readonly pauseMs?: number;
}

/**
 * Lets clients write and read until `during` has ended and for a while more. Each register has one
 * writer, and one reader on every gateway, those included that join meanwhile, and on the platform
 * service. One reader more on each reads merged answers. A right is given and taken away all the
 * time, and tried on every gateway.
 */
export async function observe(
  cluster: Cluster,
  during: () => Promise<WentBack | void>,
  { afterMs = 1000, pauseMs = 120 }: ObserveOptions = {},
): Promise<Observed> {
  const clients = new Clients(cluster, pauseMs);
  const rights = await eventually(() => Rights.open(cluster, clients));
  const work = [clients.writeAll(), clients.readEverywhere(rights), rights.giveAndTake()];
  let wentBack: WentBack | undefined;
  try {
    wentBack = (await during()) ?? undefined;
    await delay(afterMs);
    const giveUp = performance.now() + longestMs;
    while (!clients.hasEnough() && performance.now() < giveUp) await delay(lookAgainMs);
  } finally {
    clients.isDone = true;
    await Promise.all(work);
  }
  return { ...clients.observed, wentBack };
}

class Clients {
  isDone = false;
  readonly observed = {
    writes: [] as Observed['writes'],
    reads: [] as Observed['reads'],
    merged: [] as Observed['merged'],
    torn: [] as string[],
    attempted: new Map<string, number>(),
    errors: new Map<string, number>(),
    slowestWriteMs: 0,
    slowestReadMs: 0,
    slowestMs: 0,
    lateMs: 0,
  };
  readonly #cluster: Cluster;
  readonly #pauseMs: number;
  readonly #registers: readonly Register[];
  readonly #views: readonly View[];

  constructor(cluster: Cluster, pauseMs: number) {
    this.#cluster = cluster;
    this.#pauseMs = pauseMs;
    this.#registers = registers(cluster.tenant.id);
    this.#views = views(cluster.tenant.id);
  }

  hasEnough(): boolean {
    const { writes, reads } = this.observed;
    return writes.length > minWrites && freshOnes(reads).length > minWrites * 5;
  }

  countError(what: string): void {
    const { errors } = this.observed;
    errors.set(what, (errors.get(what) ?? 0) + 1);
  }

  /**
   * Sends one request. `take` records its answer, and says whether it was one; errors are counted,
   * and the time of either.
   */
  async timed(
    what: 'read' | 'write',
    work: () => Promise<Answer>,
    take: (answer: Answer, began: number, ended: number) => void,
    isAnswer: (answer: Answer) => boolean = ({ status }) => status < 300,
  ): Promise<void> {
    const began = performance.now();
    try {
      const answer = await work();
      if (isAnswer(answer)) {
        const ended = performance.now();
        take(answer, began, ended);
        const { slowestReadMs } = this.observed;
        if (what === 'read') this.observed.slowestReadMs = Math.max(slowestReadMs, ended - began);
      } else if (answer.status !== 404)
        this.countError(`${what} ${answer.status} ${answer.body?.detail.code}`);
    } catch (error) {
      this.countError(`${what} ${(error as Error).message}`);
    }
    this.observed.slowestMs = Math.max(this.observed.slowestMs, performance.now() - began);
    await delay(this.#pauseMs);
  }

  /**
   * A gateway that writes may be sent to. `turn` spreads them, so that a fault of one gateway does
   * not end all writes.
   */
  writable(turn: number): Running {
    const { gateways, suspended } = this.#cluster;
    const well = gateways.filter((gateway) => isAlive(gateway) && !suspended.has(gateway));
    return well[turn % well.length]!;
  }

  async writeAll(): Promise<void> {
    await Promise.all(this.#registers.map((register, index) => this.#writer(register, index)));
  }

  async #writer({ name, path, platform, body }: Register, index: number): Promise<void> {
    const { token } = platform ? this.#cluster.platform : this.#cluster.tenant.admin;
    for (let value = Date.now(); !this.isDone; value += 1) {
      const { url } = this.writable(value + index);
      this.observed.attempted.set(name, value);
      await this.timed(
        'write',
        () => new Client(url, token).put(path, body(value)),
        (answer, began, ended) => this.wrote(name, url, value, revisionOf(answer), began, ended),
      );
    }
  }

  wrote(
    register: string,
    node: string,
    value: number,
    revision: number | undefined,
    began: number,
    ended: number,
  ): void {
    this.observed.writes.push({ register, node, began, ended, value, revision, stale: false });
    this.observed.slowestWriteMs = Math.max(this.observed.slowestWriteMs, ended - began);
  }

  async readEverywhere(rights: Rights): Promise<void> {
    const { gateways, platformServices } = this.#cluster;
    const readers = new Map<Running, Promise<unknown>>();
    while (!this.isDone) {
      for (const node of [...gateways, ...platformServices]) {
        if (readers.has(node)) continue;
        const isGateway = gateways.includes(node);
        const place = isGateway ? this.#gateway(node) : platformService(node);
        const readable = this.#registers.filter(({ onlyMerged }) => !onlyMerged);
        const all = readable.map((register) => this.#reader(register, place));
        if (isGateway) all.push(rights.reader(node));
        readers.set(node, Promise.all([...all, this.#mergedReader(place)]));
      }
      const began = performance.now();
      await delay(lookAgainMs);
      const lateMs = performance.now() - began - lookAgainMs;
      this.observed.lateMs = Math.max(this.observed.lateMs, lateMs);
    }
    await Promise.all(readers.values());
  }

  #gateway(node: Running): Place {
    const client = new Client(node.url, this.#cluster.tenant.admin.token);
    return { node, name: node.url, ask: ({ path }) => client.get(path) };
  }

  async #reader(register: Register, { node, name, ask }: Place): Promise<void> {
    while (!this.isDone && isAlive(node))
      await this.timed(
        'read',
        () => ask(register),
        (answer, began, ended) => {
          const value = register.value(answer.body);
          if (value !== undefined)
            this.observed.reads.push({
              register: register.name,
              node: name,
              began,
              ended,
              value,
              revision: revisionOf(answer),
              stale: isStale(answer),
            });
        },
      );
  }

  async #mergedReader({ node, name, ask }: Place): Promise<void> {
    for (let turn = 0; !this.isDone && isAlive(node); turn += 1) {
      const view = this.#views[turn % this.#views.length]!;
      await this.timed(
        'read',
        () => ask(view),
        (answer, began, ended) => this.#takeMerged(view, name, answer, began, ended),
      );
    }
  }

  #takeMerged(view: View, node: string, answer: Answer, began: number, ended: number): void {
    const stale = isStale(answer);
    const { revision: revisions } = answer.body as { revision: object };
    const label = `${view.path} at ${JSON.stringify(revisions)}`;
    const shown = shownIn(view.configurations(answer.body));
    const seen: string[] = [];
    for (const [register, values] of shown) {
      seen.push(`${register} ${[...values].join(' and ')}`);
      for (const value of values)
        this.observed.reads.push({
          register,
          node,
          began,
          ended,
          value,
          revision: undefined,
          stale,
        });
      if (values.size > 1) this.observed.torn.push(`${label} on ${node}: ${seen.at(-1)}`);
    }
    this.observed.merged.push({ node, began, ended, label, shown: seen.join(', '), stale });
  }
}

/** Its answers look as a gateway's do: see platform-service.ts. */
function platformService(node: Running): Place {
  const client = new Client(node.url);
  const ask = ({ action, params }: Question): Promise<Answer> =>
    client.get(`/?${new URLSearchParams({ action, params: JSON.stringify(params) }).toString()}`);
  return { node, name: `the platform service ${node.url}`, ask };
}

/** What an automation may read until it is taken away. */
interface Right {
  readonly register: string;
  readonly client: (url: string) => Client;
}

/** How a right ends, by turns. */
const takings = ['its role', 'its key', 'its account'] as const;

/** How long a right is there, and how long it is tried after it was taken away. */
const rightMs = 250;

/** A service account with a key for each right, which loses one of its role, its key and itself. */
class Rights {
  readonly #admin: Client;
  readonly #accounts: string;
  readonly #document: string;
  readonly #clients: Clients;
  #current: Right | undefined;

  private constructor(admin: Client, tenantId: string, clients: Clients) {
    this.#admin = admin;
    this.#accounts = `/tenants/${tenantId}/service-accounts`;
    this.#document = `/tenants/${tenantId}/config/agents/${agentBeside}`;
    this.#clients = clients;
  }

  /**
   * Signs in, since keys are made soon after that alone; removes what earlier observations left.
   */
  static async open({ tenant, gateways }: Cluster, clients: Clients): Promise<Rights> {
    const { url } = gateways[0]!;
    const admin = await signIn(url, tenant.emails.tenant_admin!, memberPassword);
    const rights = new Rights(admin, tenant.id, clients);
    const written = await admin.put(rights.#document, { custom: {} });
    if (written.status >= 300) throw new Error(written.text);
    const left = await admin.get(`${rights.#accounts}?limit=200`);
    for (const { id } of (left.body as { items: { id: string }[] }).items)
      await admin.delete(`${rights.#accounts}/${id}`);
    return rights;
  }

  async giveAndTake(): Promise<void> {
    for (let turn = 0; !this.#clients.isDone; turn += 1) {
      const taking = takings[turn % takings.length]!;
      const { url } = this.#clients.writable(turn);
      await this.#giveAndTakeOne(taking, url);
      await delay(5);
    }
  }

  async #giveAndTakeOne(taking: (typeof takings)[number], url: string): Promise<void> {
    const admin = new Client(url, this.#admin.token);
    const made = await this.#made(admin, this.#accounts, {
      name: 'reader',
      roles: ['operator'],
    });
    if (!made) return;
    const account = `${this.#accounts}/${made.id}`;
    const key = await this.#made(admin, `${account}/api-keys`, {
      name: 'reader',
      scopes: ['config:read'],
    });
    if (!key) return;
    const register = rightRegister(`${taking} ${made.id}`);
    this.#current = { register, client: (at) => new Client(at, key.api_key) };
    await delay(rightMs);

    this.#clients.observed.attempted.set(register, 1);
    await this.#clients.timed(
      'write',
      () => {
        if (taking === 'its role') return admin.patch(account, { roles: ['viewer'] });
        if (taking === 'its key') return admin.delete(`${account}/api-keys/${key.id}`);
        return admin.delete(account);
      },
      (_answer, began, ended) => this.#clients.wrote(register, url, 1, 1, began, ended),
    );
    await delay(rightMs);
    this.#current = undefined;
    if (taking !== 'its account')
      await this.#clients.timed(
        'write',
        () => admin.delete(account),
        () => {},
      );
  }

  /** What was made; undefined where there was no answer. */
  async #made(
    admin: Client,
    path: string,
    body: object,
  ): Promise<{ id: string; api_key: string } | undefined> {
    const made: { id: string; api_key: string }[] = [];
    await this.#clients.timed(
      'write',
      () => admin.post(path, body),
      (answer) => made.push(answer.body),
    );
    return made[0];
  }

  /** Tries the right that there is now. */
  async reader(node: Running): Promise<void> {
    while (!this.#clients.isDone && isAlive(node)) {
      const right = this.#current;
      if (!right) {
        await delay(5);
        continue;
      }
      await this.#clients.timed(
        'read',
        () => right.client(node.url).get(this.#document),
        (answer, began, ended) => {
          const value = answer.status < 300 ? 0 : 1;
          this.#clients.observed.reads.push({
            register: right.register,
            node: node.url,
            began,
            ended,
            value,
            revision: value,
            stale: isStale(answer),
          });
        },
        ({ status }) => status < 300 || status === 401 || status === 403,
      );
    }
  }
}
