/**
 * The order of the test files of a run: the longest first, so that none that takes minutes is left for the end, when the other workers
 * have nothing more to do. Jest knows from earlier runs how long a file takes. In a new clone it would go by the size of files, which
 * has a page that kills a cluster over and over come last; there the folder of a file says how much it starts.
 */
const { basename, dirname } = require('node:path');
const { default: TestSequencer } = require('@jest/test-sequencer');

/** From clusters that run for minutes to what needs no process at all. One that is not listed comes first. */
const folders = ['faults', 'browser', 'flows', 'gateway', 'services', 'house', 'mutants', 'rules'];

const placeOf = ({ path }) => folders.indexOf(basename(dirname(path)));

module.exports = class LongestFirst extends TestSequencer {
  sort(tests) {
    const sorted = super.sort(tests);
    const isTimed = sorted.some(({ duration }) => duration !== undefined);
    return isTimed ? sorted : sorted.toSorted((one, other) => placeOf(one) - placeOf(other));
  }
};
