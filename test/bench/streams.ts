/**
 * Watch streams of effective values beside a server that does nothing but keep connections: memory,
 * a change to the last, idle.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { Client, createTenant, memberPassword, signIn } from '../support/strata.ts';
import { cpuMs, loadCore, rssMiB, serverCore, startProgram, type Program } from './machine.ts';
import type { Comparison, Fact, Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const tenants = 100;
const idleSeconds = 10;

interface Watched {
  readonly path: string;
  readonly token: string;
}

const readers = (origin: string, watched: readonly Watched[], streams: number): Promise<Program> =>
  startProgram(
    'test/bench/peers/stream-readers.ts',
    [origin, String(streams), JSON.stringify(watched)],
    loadCore,
  );

/**
 * Kibibytes of memory that each stream takes, milliseconds of the processor a second that 1,000
 * idle ones add, and those that the process takes without any: the least of before and after them.
 */
async function costOf(
  { pid }: { readonly pid: number },
  streams: number,
  begin: () => Promise<Program>,
): Promise<{ kibibytes: number; idleMs: number; aloneMs: number }> {
  const idleFor = async (seconds: number): Promise<number> => {
    const from = cpuMs(pid);
    await delay(seconds * 1000);
    return (cpuMs(pid) - from) / seconds;
  };
  await delay(2000);
  const aloneBefore = await idleFor(idleSeconds);
  const before = rssMiB(pid);
  const reading = await begin();
  await delay(2000);
  const kibibytes = ((rssMiB(pid) - before) * 1024) / streams;
  const withStreams = await idleFor(idleSeconds);
  await reading.stop();
  await delay(2000);
  const aloneMs = Math.min(aloneBefore, await idleFor(idleSeconds));
  const idleMs = (withStreams - aloneMs) / (streams / 1000);
  return { kibibytes, idleMs, aloneMs };
}

/**
 * Milliseconds from the beginning of the request that makes the event until the last reader has it,
 * and of the processor.
 */
async function fanOut(
  { pid }: { readonly pid: number },
  reading: Program,
  send: () => Promise<unknown>,
): Promise<{ ms: number; cpu: number }> {
  const from = cpuMs(pid);
  const began = performance.timeOrigin + performance.now();
  await send();
  const { value } = await reading.lines.next();
  await delay(500);
  return { ms: Number(value) - began, cpu: cpuMs(pid) - from };
}

export const streamsGroup: Group = async ({ rounds, streams }) => {
  const stage = await startStage();
  const programs: Program[] = [];
  try {
    const limits = {
      WATCH_MAX_STREAMS: '50000',
      WATCH_MAX_STREAMS_PER_TENANT: '25000',
      WATCH_MAX_STREAMS_PER_CALLER: '25000',
    };
    const settings = { ...stage.clustered, ...limits };
    await stage.start(['tenant-config', 'global-config'], loadCore, settings);
    await stage.start(['auth', 'audit', 'config-resolver'], loadCore, settings);
    const gateway = await stage.start(['gateway'], serverCore, settings);
    const platform = await eventually(() => platformAdmin(gateway.url));
    const { id, admin } = await eventually(() => createTenant(gateway.url, platform, 'Bench'));
    const pathOf = (tenantId: string): string =>
      `/tenants/${tenantId}/config/effective/watch?agent_type=bench`;
    const watched = [{ path: pathOf(id), token: admin.token! }];
    for (let each = 1; each < tenants; each += 1) {
      const email = `bench-${each}@bench.example`;
      const made = await platform.post('/tenants', {
        name: `Bench ${each}`,
        admin: { email, password: memberPassword },
      });
      const by = await signIn(gateway.url, email, memberPassword);
      watched.push({ path: pathOf((made.body as { id: string }).id), token: by.token! });
    }
    const hub = await startProgram('test/bench/peers/bare-hub.ts', [], serverCore);
    programs.push(hub);
    const bare = [{ path: '/', token: 'x' }];

    const ofHub = await costOf(hub, streams, () => readers(hub.said, bare, streams));
    const ofStrata = await costOf(gateway, streams, () => readers(gateway.url, watched, streams));

    const strata: { ms: number; cpu: number }[] = [];
    const baseline: { ms: number; cpu: number }[] = [];
    const ofTenant = await readers(gateway.url, watched.slice(0, 1), streams);
    for (let round = 0; round < rounds + 1; round += 1)
      strata.push(
        await fanOut(gateway, ofTenant, () =>
          admin.patch(`/tenants/${id}/config/risk`, {
            global_settings: { max_concurrent_automations: round + 1 },
          }),
        ),
      );
    await ofTenant.stop();
    const ofBare = await readers(hub.said, bare, streams);
    for (let round = 0; round < rounds + 1; round += 1)
      baseline.push(await fanOut(hub, ofBare, () => new Client(hub.said).post('/', {})));
    await ofBare.stop();
    const peer = 'a bare server of Server-Sent Events';
    const many = streams.toLocaleString('en');
    const rows: Comparison[] = [
      {
        what: `memory of each of ${many} effective streams of ${tenants} tenants`,
        peer: `twice that of ${peer}, or 25 kB, whichever is more`,
        unit: 'KiB',
        goal: { atMost: 1 },
        strata: [ofStrata.kibibytes],
        baseline: [Math.max(25, 2 * ofHub.kibibytes)],
      },
      {
        what: `a change at the last of ${many} streams of one tenant`,
        peer,
        unit: 'ms',
        goal: { atMost: 3 },
        strata: strata.slice(1).map(({ ms }) => ms),
        baseline: baseline.slice(1).map(({ ms }) => ms),
      },
    ];
    rows.push({
      what: 'processor time a second that 1,000 idle effective streams add, heartbeats included',
      peer: '3 ms',
      unit: 'ms',
      goal: { atMost: 1 },
      strata: [ofStrata.idleMs],
      baseline: [3],
    });
    const cpu = (all: readonly { cpu: number }[]): string =>
      (all.slice(1).reduce((sum, each) => sum + each.cpu, 0) / rounds).toFixed(0);
    const facts: Fact[] = [
      {
        what: 'processor time a second that 1,000 idle streams add, heartbeats included / bare, without',
        result: `${ofStrata.idleMs.toFixed(2)} / ${ofHub.idleMs.toFixed(2)} ms`,
      },
      {
        what: 'processor time a second of the gateway without any stream, which is in neither',
        result: `${ofStrata.aloneMs.toFixed(2)} ms`,
      },
      {
        what: `memory of a stream: Strata / bare`,
        result: `${ofStrata.kibibytes.toFixed(1)} / ${ofHub.kibibytes.toFixed(1)} KiB`,
      },
      {
        what: `processor time of a change for ${many} streams: Strata / bare`,
        result: `${cpu(strata)} / ${cpu(baseline)} ms`,
      },
    ];
    return { rows, facts };
  } finally {
    for (const program of programs) await program.stop();
    await stage.stop();
  }
};
