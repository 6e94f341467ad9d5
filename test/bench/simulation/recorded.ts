/**
 * What was measured, for whoever simulates without measuring: the costs of the steps, and the points that the simulation has to agree
 * with. docs/scaling.md shows both and says how they were taken.
 */
import type { Point } from './points.ts';
import type { Costs } from './visible-write.ts';

export const recordedCosts: Costs = {
  machine: '2 cores, Intel(R) Xeon(R) Processor, Node v24.21.0',
  at: '2026-11-22',
  cold: { nodeMs: 0.18724, writerMs: 0.18712, busMs: 0.07973 },
  wakeMs: 0,
  commit: { statements: 4, loopMs: 0.4893, databaseMs: 0.47235, wakeMs: 0 },
  leases: {
    loopMs: 0.09444,
    databaseMs: 0.06334,
    loopPerRowMs: 0.00104,
    databasePerRowMs: 0.00184,
  },
  publish: { fixedMs: 0.10438, eachMs: 0.0069 },
  receiveMs: 0.07557,
  acknowledgedMs: 0.0346,
  scanMs: 2e-5,
  busMs: 0.01222,
  beat: { sendMs: 0.18646, receiveMs: 0.02481, busMs: 0.01653 },
  poll: { askMs: 1.10736, answerMs: 1.26688, databaseMs: 1.55562 },
  pauses: {
    everyMs: 312.22116,
    ms: [
      0.9174, 0.9174, 0.9174, 2.5611, 2.5611, 2.5611, 2.5611, 3.9274, 3.9274, 3.9274, 3.9274,
      3.9274, 4.2505, 4.2505, 4.2505, 4.2505, 4.3769, 4.3769, 4.3769, 4.3769, 4.3769, 4.4053,
      4.4053, 4.4053, 4.4053, 5.0139, 5.0139, 5.0139, 5.0139, 5.0139, 5.1322, 5.1322, 5.1322,
      5.1322, 5.1322, 5.5145, 5.5145, 5.5145, 5.5145, 5.6733, 5.6733, 5.6733, 5.6733, 5.6733, 5.676,
      5.676, 5.676, 5.676, 12.7468, 12.7468, 12.7468,
    ],
  },
  stalls: {
    perSecond: 35,
    ms: [
      0.1001, 0.1011, 0.102, 0.1033, 0.1047, 0.1062, 0.1072, 0.1092, 0.1119, 0.1142, 0.1146, 0.1179,
      0.1195, 0.1229, 0.1309, 0.1355, 0.1378, 0.1412, 0.1417, 0.148, 0.1529, 0.158, 0.3043, 0.3805,
      0.3886, 0.4003, 0.4036, 0.5119, 0.5146, 0.5199, 0.5225, 0.5249, 0.5304, 0.5313, 0.5353,
      0.5421, 0.5468, 0.5496, 0.5541, 0.5568, 0.5598, 0.5632, 0.5701, 0.5839, 0.606, 0.673, 0.9137,
      1.0321, 1.7627, 5.8975, 59.4596,
    ],
  },
};

export const recordedPoints: readonly Point[] = [
  { nodes: 3, p50: 1.88, p99: 4.82 },
  { nodes: 10, p50: 2.33, p99: 5.97 },
  { nodes: 30, p50: 3.82, p99: 11.28 },
];
