/**
 * The order of the test files of a run: the longest first, so that none that takes minutes is left for the end, when the other workers
 * have nothing more to do. Jest knows from earlier runs how long a file takes. In a new clone it would go by the size of files, which
 * has a page that kills a cluster over and over come last; there the folder of a file says how much it starts.
 */
const { readFileSync } = require('node:fs');
const { basename, dirname } = require('node:path');
const { default: TestSequencer } = require('@jest/test-sequencer');

/** From clusters that run for minutes to what needs no process at all. One that is not listed comes first. */
const folders = [
  'soak',
  'faults',
  'browser',
  'flows',
  'gateway',
  'services',
  'repository',
  'mutants',
  'rules',
];

const placeOf = ({ path }) => folders.indexOf(basename(dirname(path)));

const hasFaults = ({ path }) => ['soak', 'faults'].includes(basename(dirname(path)));

/** They come last, one after the other, so that the Strata which they share is never there for nobody: it costs processor time. */
const sharesStrata = ({ path }) => readFileSync(path, 'utf8').includes('/shared-strata.ts');

/** Two others behind each file that lets a cluster have its faults, so that about one of them runs at a time and has room. */
function spread(tests) {
  const { true: faults = [], false: others = [] } = Object.groupBy(tests, hasFaults);
  return [
    ...faults.flatMap((test, index) => [test, ...others.slice(2 * index, 2 * index + 2)]),
    ...others.slice(2 * faults.length),
  ];
}

module.exports = class LongestFirst extends TestSequencer {
  sort(tests) {
    const sorted = super.sort(tests);
    const isTimed = sorted.some(({ duration }) => duration !== undefined);
    const ordered = isTimed
      ? sorted
      : sorted.toSorted((one, other) => placeOf(one) - placeOf(other));
    const { true: sharing = [], false: others = [] } = Object.groupBy(ordered, sharesStrata);
    return [...spread(others), ...sharing];
  }

  /**
   * What `--onlyFailures` runs. A file that is late beside others is not late alone, but a history that was wrong once is wrong: where a
   * file with faults has failed, nothing is run again, and the run has failed.
   */
  allFailedTests(tests) {
    const failed = super.allFailedTests(tests);
    const files = failed.filter(hasFaults).map(({ path }) => path);
    if (files.length > 0)
      throw new Error(`not run again, as faults may be rare: ${files.join(', ')}`);
    return failed;
  }
};
