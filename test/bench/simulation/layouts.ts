/**
 * The layouts that `npm run simulate` looks at: those that were measured, and those that nobody has
 * measured.
 */
import type { Layout } from './visible-write.ts';

/**
 * As test/bench/visibility.ts: two cores for everything, ten nodes in a process, and the writer in
 * another.
 */
export const benchLayout = (nodes: number): Layout => ({
  regions: [{ nodes, oneWayMs: 0, jitterMs: 0 }],
  where: { cores: 2, processes: Math.ceil(nodes / 10) },
});

/**
 * Between continents; https://www.cloudping.co has what the regions of a cloud measure of each
 * other.
 */
export const across = { oneWayMs: 40, jitterMs: 2 };

export interface More {
  readonly gathered?: number | undefined;
  readonly oneWayMs?: number;
}

/**
 * Nodes shared out among regions of which the writer has the first; three NATS servers in each, ten
 * nodes that answer polls, and a PostgreSQL of eight cores.
 */
export function inRegions(
  nodes: number,
  regions: number,
  { gathered, oneWayMs = across.oneWayMs }: More = {},
): Layout {
  const each = Math.floor(nodes / regions);
  const near = { nodes: nodes - (regions - 1) * each, oneWayMs: 0, jitterMs: 0 };
  const far = Array.from({ length: regions - 1 }, () => ({ ...across, oneWayMs, nodes: each }));
  return {
    regions: [near, ...far],
    where: { busServers: 3, feedNodes: 10, databaseCores: 8 },
    ...(gathered === undefined ? {} : { gathered }),
  };
}

const oneSite = (nodes: number, gathered?: number): Layout => inRegions(nodes, 1, { gathered });
const threeRegions = (nodes: number, gathered?: number): Layout =>
  inRegions(nodes, 3, { gathered });

export const unmeasured: readonly (readonly [name: string, layout: Layout])[] = [
  ['100 nodes, one site', oneSite(100)],
  ['300 nodes, one site', oneSite(300)],
  ['1,000 nodes, one site', oneSite(1000)],
  ['3,000 nodes, one site', oneSite(3000)],
  ['10,000 nodes, one site', oneSite(10_000)],
  ['10,000 nodes, 100 cells of 100', oneSite(100)],
  ['1,000 nodes, one site, gathered by 32', oneSite(1000, 32)],
  ['10,000 nodes, one site, gathered by 100', oneSite(10_000, 100)],
  ['100 nodes, three regions', threeRegions(100)],
  ['1,000 nodes, three regions, gathered by 32', threeRegions(1000, 32)],
  ['10,000 nodes, three regions, gathered by 100', threeRegions(10_000, 100)],
];
