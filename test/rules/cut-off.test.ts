/** Which node a call goes to while some of them do not reach the database. */
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import { CutOffNodes } from '../../shared/contract-runtime/cut-off.ts';
import { StrataError } from '../../shared/errors.ts';

const action = 'tenant-config.risk.get';
const [one, two] = ['one', 'two'].map((id) => ({ id, isAvailable: true, action: {} }));
const both = [one!, two!];
/** As Moleculer brings it from the node. */
const refusal = (nodeID: string, more: object = {}): Error =>
  Object.assign(new StrataError('service_unavailable'), { nodeID, retryable: true, ...more });

let nodes: CutOffNodes;
let now = 0;
beforeEach(() => {
  now = 1000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  nodes = new CutOffNodes();
});
afterEach(() => {
  jest.restoreAllMocks();
});

test('another node of the service is asked, and one read at a time tries whether it is over', () => {
  expect(nodes.nodeFor(action, both, true)).toBeUndefined();
  expect(nodes.note(action, refusal('one'))).toBe(true);
  expect(nodes.nodeFor(action, both, true)).toBe('two');
  expect(nodes.nodeFor('global-config.bounds.get', both, true)).toBeUndefined();
  now += 5001;
  expect([false, true, true].map((mayTry) => nodes.nodeFor(action, both, mayTry))).toEqual([
    'two',
    'one',
    'two',
  ]);
  nodes.noteAnswer(action, 'one');
  expect(nodes.nodeFor(action, both, true)).toBeUndefined();
});

test('any node is asked where all are cut off, or the others are away', () => {
  nodes.note(action, refusal('one'));
  expect(nodes.nodeFor(action, [one!, { ...two!, isAvailable: false }], false)).toBeUndefined();
  nodes.note(action, refusal('two'));
  expect(nodes.nodeFor(action, both, true)).toBeUndefined();
  now += 5001;
  expect(nodes.nodeFor(action, both, true)).toBe('one');
});

test('no other failure says that a node is cut off', () => {
  for (const other of [{ retryable: false }, { type: 'timeout' }, { nodeID: undefined }])
    expect(nodes.note(action, refusal('one', other))).toBe(false);
  expect(nodes.nodeFor(action, both, true)).toBeUndefined();
});
