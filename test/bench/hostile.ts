/**
 * How long others wait while one request of 1 MiB is worked on: `/healthz` beside hostile bodies on
 * every route that takes one.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { TSchema } from 'typebox';
import { restRoutes } from '../../gateway/http/rest.ts';
import { hostileBodies, type HostileBody } from '../support/hostile-bodies.ts';
import { hostileJson } from '../support/hostile-json.ts';
import { Client, createTenant } from '../support/strata.ts';
import { serverCore } from './machine.ts';
import type { Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const bodyBytes = 1_000_000;
const goalMs = 250;
/** How many of the slowest are told. */
const received = 8;

interface Hostile {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly by: Client;
  readonly textOf: HostileBody;
}

export const hostile: Group = async () => {
  const stage = await startStage();
  try {
    const { url } = await stage.start([], serverCore, stage.alone);
    const platform = await platformAdmin(url);
    const tenant = await createTenant(url, platform, 'Bench');

    const evaluated = new Set<string>();
    const atContracts = restRoutes.flatMap(({ contract, rest }): Hostile[] => {
      const body = contract.params.properties.body as TSchema | undefined;
      if (!body) return [];
      const path = rest.path
        .replace('{tenant_id}', tenant.id)
        .replaceAll(/\{[a-z]*_?id\}/g, () => randomUUID())
        .replaceAll(/\{[a-z_]+\}/g, 'hostile');
      const by = contract.access.level === 'tenant' ? tenant.admin : platform;
      return [...hostileBodies(body, evaluated)].map(([name, textOf]) => ({
        name: `${rest.method} ${rest.path}: ${name}`,
        method: rest.method,
        path,
        by,
        textOf,
      }));
    });
    const atLogin = Object.entries(hostileJson).map(([name, textOf]): Hostile => {
      const path = '/auth/login';
      return { name: `POST ${path}: ${name}`, method: 'POST', path, by: new Client(url), textOf };
    });

    const waits: { name: string; ms: number }[] = [];
    for (const each of [...atLogin, ...atContracts])
      waits.push({ name: each.name, ms: await longestWait(url, each) });
    const slowest = waits.toSorted((a, b) => b.ms - a.ms);
    const misses = slowest.filter(({ ms }) => ms > goalMs);
    const facts = slowest.slice(0, received).map(({ name, ms }) => ({
      what: `the longest that /healthz took during ${name}`,
      result: `${ms.toFixed(0)} ms`,
    }));
    const verdict = misses.length === 0 ? 'all' : `all but ${misses.length}`;
    const count = {
      what: `bodies of 1 MB during which /healthz took at most ${goalMs} ms`,
      result: `${verdict} of ${waits.length}`,
    };
    return { rows: [], facts: [count, ...facts] };
  } finally {
    await stage.stop();
  }
};

/** In milliseconds, from before the body is sent until it has been answered. */
async function longestWait(url: string, { method, path, by, textOf }: Hostile): Promise<number> {
  const raw = textOf(bodyBytes);
  const state = { longest: 0, isAnswered: false };
  const probe = async (): Promise<void> => {
    while (!state.isAnswered) {
      const began = performance.now();
      const { status } = await new Client(url).get('/healthz');
      if (status !== 200) throw new Error(`/healthz: ${status}`);
      state.longest = Math.max(state.longest, performance.now() - began);
      await delay(1);
    }
  };
  const send = async (): Promise<void> => {
    // The probe is on its way first.
    await delay(5);
    try {
      const { status } = await by.send(method, path, { raw });
      if (status >= 500) throw new Error(`${method} ${path}: ${status}`);
    } finally {
      state.isAnswered = true;
    }
  };
  await Promise.all([probe(), send()]);
  return state.longest;
}
