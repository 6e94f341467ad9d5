/** Which tests show what a source file does: a table by room, and whatever imports the file itself. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, sep } from 'node:path';

/** Cheap enough to run for every change. */
export const always = ['test/rules/', 'test/repository/', 'test/mutants/'];

/** Path of the sources, and of the tests below `test/`; every row that fits counts. */
export const rooms: readonly (readonly [RegExp, RegExp])[] = [
  [/^shared\/contracts\//, /gateway\/(isolation|openapi|endpoints)|services\/bus-access/],
  [
    /^shared\/(access|narrow-keys|errors|nearest)\.ts/,
    /gateway\/(isolation|narrow|names)|services\/bus-access/,
  ],
  [/^shared\/(settings|process)\//, /flows\/(start|readiness)/],
  [/^shared\/concurrency\//, /services\/(feed|delivering)/],
  [/^shared\/schema\//, /gateway\/(bad-input|body-cost|invalid-bodies|large-pages)/],
  [/^shared\/security\//, /gateway\/secrets|services\/(sign-in|passwords|channels)/],
  [/^shared\/(outgoing|mail)\//, /services\/(outgoing|mail|channels)/],
  [/^shared\/budgets\//, /rules\/(budgets|freezes|business-hours)|gateway\/limits-over-time/],
  [/^shared\/bounds\//, /gateway\/(bounds|layers|decide)/],
  [/^shared\/bus\//, /services\/(bus|sealed-bus|discovery|neighbours|large)\./],
  [/^shared\/contract-runtime\//, /services\/(contract-checks|bus-access|skew|bus)\./],
  [/^shared\/coherence\//, /services\/(feed|bus)\.|gateway\/fast-path|faults\/coherence/],
  [/^shared\/(node|telemetry)\//, /flows\/(cluster|readiness|monitoring)/],
  [/^shared\/database\/backup\//, /faults\/restore/],
  [
    /^shared\/database\//,
    /services\/(database-outage|embedded-postgres|schema-drift)|flows\/start/,
  ],
  [/^shared\/change-sets\//, /flows\/change-sets/],
  [/^shared\/rollouts\//, /flows\/(rollout-gates|gateways)/],
  [/^shared\/(commits|documents)\//, /services\/(documents|combined)|flows\/concurrency/],
  [/^services\/(node-roles|derived-reads)\.ts/, /flows\/(start|cluster)/],
  [/^services\/audit\//, /services\/audit|flows\/(retention|event-destinations)/],
  [/^services\/auth\//, /services\/(account|sign-in|passwords|shares)|flows\/gateways/],
  [/^services\/auth\/(api-keys)\//, /services\/(api-keys|service-accounts)/],
  [/^services\/auth\/invitations\//, /services\/invitations/],
  [/^services\/auth\/passkeys\//, /flows\/passkeys/],
  [/^services\/auth\/single-sign-on\//, /flows\/sso\./],
  [/^services\/auth\/throttling\//, /services\/throttle/],
  [/^services\/config-resolver\//, /gateway\/(bounds|decide|ladder|layers|live-values)/],
  [/^services\/global-config\//, /gateway\/(plan|platform-history)|services\/plan/],
  [
    /^services\/notifier\//,
    /services\/(channels|delivering|held)|flows\/(approvals|automations|notifier)/,
  ],
  [/^services\/tenant-config\//, /services\/documents|gateway\/(isolation|layers)|flows\/erasure/],
  [/^gateway\/[^/]+$/, /services\/neighbours/],
  [/^gateway\/(http|fast-path)\//, /gateway\/(conventions|fast-path|in-front|bad-input|endpoints)/],
  [/^gateway\/mcp\//, /gateway\/mcp/],
  [/^gateway\/openapi\//, /gateway\/openapi/],
  [/^gateway\/streams\//, /gateway\/(live-values|watch-shares|own-session)|flows\/gateways/],
  [/^(gateway\/console|console)\//, /gateway\/console|browser\/console/],
  [/^cli\//, /flows\/(cli|gateways)/],
  [/^client\//, /services\/client|flows\/client/],
  [/^(deploy|docker|Dockerfile|\.dockerignore)/, /flows\/compose|soak\/image/],
  [/^[^/]+\.(m?[jt]s)$/, /flows\/start/],
];

const root = join(import.meta.dirname, '..');
const tests = globSync('test/**/*.test.ts', { cwd: root }).map((file) => file.split(sep).join('/'));

const importsByTest = new Map<string, ReadonlySet<string>>();

/** Files that a test names as imports do. */
function importsOf(test: string): ReadonlySet<string> {
  const known = importsByTest.get(test);
  if (known) return known;
  const named = [...readFileSync(join(root, test), 'utf8').matchAll(/'(\.[^']+)'/g)];
  const files = named.map(([, target]) => normalize(join(dirname(test), target!)));
  const imports = new Set(files.map((file) => file.split(sep).join('/')));
  importsByTest.set(test, imports);
  return imports;
}

/** The test files to run for one changed file; none for texts. */
export const testsOf = (changed: string): string[] =>
  tests.filter(
    (test) =>
      test === changed ||
      rooms.some(([source, shown]) => source.test(changed) && shown.test(test.slice(5))) ||
      importsOf(test).has(changed),
  );
