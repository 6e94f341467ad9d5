/**
 * deploy/kubernetes, without a cluster: base and example are put together as kustomize does it,
 * every field is one that Kubernetes has, and what they say of roles, settings and probes is what
 * Strata has.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { roles } from '../../services/node-roles.ts';
import { loadSettings, variableOf } from '../../shared/settings/settings.ts';
import { settingsTable, type Row } from '../../shared/settings/settings-table.ts';

const root = join(import.meta.dirname, '../..');
const folder = join(root, 'deploy/kubernetes');

// What a manifest holds is what the compiler is asked below.
// oxlint-disable-next-line typescript/no-explicit-any
type Manifest = any;
interface Kustomization {
  readonly resources: string[];
  readonly namespace?: string;
  readonly images?: { name: string; newName: string; newTag: string }[];
  readonly replicas?: { name: string; count: number }[];
  readonly patches?: { path: string }[];
}

const textOf = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8');
const manifestsIn = (...path: string[]): Manifest[] =>
  parseAllDocuments(textOf(...path)).map((document) => document.toJS());
const kustomizationOf = (name: string): Kustomization => parse(textOf(name, 'kustomization.yaml'));

/**
 * What `build` below knows of kustomize. Whatever else a kustomization says is refused, rather than
 * left out of what is tested.
 */
const composed: Readonly<Record<string, readonly string[]>> = {
  kustomization: ['apiVersion', 'kind', 'resources', 'namespace', 'images', 'replicas', 'patches'],
  image: ['name', 'newName', 'newTag'],
  replicas: ['name', 'count'],
  patch: ['path'],
  'patch of a ConfigMap': ['apiVersion', 'kind', 'metadata', 'data'],
};
function assertComposed(what: keyof typeof composed, given: object): void {
  const others = Object.keys(given).filter((key) => !composed[what]!.includes(key));
  if (others.length > 0) throw new Error(`no ${what} has ${others.join(', ')} in this test`);
}

/** As `kustomize build` puts it together: resources, patches, then what is said of all of them. */
function build(name: string, of = kustomizationOf): Manifest[] {
  const kustomization = of(name);
  assertComposed('kustomization', kustomization);
  const { resources, namespace, images = [], replicas = [], patches = [] } = kustomization;
  const all = resources.flatMap((path) =>
    path.endsWith('.yaml') ? manifestsIn(name, path) : build(join(name, path)),
  );
  const named = (kind: string, wanted: string): Manifest => {
    const found = all.find((each) => each.kind === kind && each.metadata.name === wanted);
    if (!found) throw new Error(`${name} changes ${kind} ${wanted}, which is not there`);
    return found;
  };
  for (const entry of patches) {
    assertComposed('patch', entry);
    for (const patch of manifestsIn(name, entry.path)) {
      assertComposed('patch of a ConfigMap', patch);
      Object.assign(named(patch.kind, patch.metadata.name).data, patch.data);
    }
  }
  for (const entry of replicas) {
    assertComposed('replicas', entry);
    named('Deployment', entry.name).spec.replicas = entry.count;
  }
  for (const image of images) assertComposed('image', image);
  for (const manifest of all) {
    if (namespace !== undefined) manifest.metadata.namespace = namespace;
    for (const container of manifest.spec?.template?.spec.containers ?? []) {
      const image = images.find((each) => each.name === container.image);
      if (image) container.image = `${image.newName}:${image.newTag}`;
    }
  }
  return all;
}

/** kubectl brings kustomize; undefined where it is not installed, or is from before kustomize 5. */
function builtByKustomize(name: string): Manifest[] | undefined {
  const kubectl = (...args: string[]): string =>
    execFileSync('kubectl', args, { encoding: 'utf8', stdio: 'pipe' });
  try {
    if (!/Kustomize Version: v(?:[5-9]|\d\d)/.test(kubectl('version', '--client')))
      return undefined;
  } catch {
    return undefined;
  }
  const text = kubectl('kustomize', join(folder, name));
  return parseAllDocuments(text).map((document) => document.toJS());
}

const base = build('base');
const example = build('example');
const ofKind = (kind: string): Manifest[] => base.filter((manifest) => manifest.kind === kind);
const deployments = ofKind('Deployment');
const workloads = [...deployments, ...ofKind('Job')];
const containerOf = (workload: Manifest): Manifest => workload.spec.template.spec.containers[0];
const componentOf = ({ metadata }: Manifest): string =>
  metadata.labels['app.kubernetes.io/component'];

/** Where kubernetes-types, which is made from the API's OpenAPI document, has each kind. */
const modules: Readonly<Record<string, string>> = {
  'apps/v1': 'apps/v1',
  'batch/v1': 'batch/v1',
  'policy/v1': 'policy/v1',
  'networking.k8s.io/v1': 'networking/v1',
  v1: 'core/v1',
};
const checks = join(root, 'node_modules/.cache', `kubernetes-${process.pid}`);
beforeAll(() => {
  mkdirSync(checks, { recursive: true });
});
afterAll(() => {
  rmSync(checks, { recursive: true, force: true });
});

/**
 * What the compiler objects to: in a literal it takes no field that the type does not have, however
 * deep, and no value of another type.
 */
function objectionsTo(manifests: readonly Manifest[]): string {
  const lines = manifests.map(
    (manifest, index) =>
      `export const m${index}: import('kubernetes-types/${modules[manifest.apiVersion]}').${manifest.kind} = ${JSON.stringify(manifest)};`,
  );
  writeFileSync(join(checks, 'check.ts'), lines.join('\n'));
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    module: 'esnext',
    moduleResolution: 'bundler',
    target: 'esnext',
  };
  writeFileSync(
    join(checks, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: ['check.ts'] }),
  );
  try {
    execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', checks], {
      encoding: 'utf8',
    });
    return '';
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

describe('manifests', () => {
  test('have only kinds and fields that Kubernetes has', () => {
    expect(base.map(({ apiVersion }) => apiVersion).filter((each) => !modules[each])).toEqual([]);
    expect(objectionsTo([...base, ...example])).toBe('');
  });

  test('with a field that Kubernetes does not have are refused, however deep it is', () => {
    const [deployment] = structuredClone(deployments);
    containerOf(deployment).readinessProbe.httpGet.pathh = '/readyz';
    expect(objectionsTo([deployment])).toContain('pathh');
    const [policy] = structuredClone(ofKind('NetworkPolicy'));
    policy.spec.policyTypes = 'Ingress';
    expect(objectionsTo([policy])).toContain("type 'string[]'");
  });

  test('are all named by the kustomization, and nothing else is', () => {
    const files = readdirSync(join(folder, 'base')).filter((name) => name !== 'kustomization.yaml');
    expect(kustomizationOf('base').resources.toSorted()).toEqual(files.toSorted());
  });

  test('have names of their own, and select by labels that the pods have', () => {
    const names = base.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
    for (const { metadata, spec } of deployments) {
      expect(spec.selector.matchLabels).toEqual(metadata.labels);
      expect(spec.template.metadata.labels).toEqual(metadata.labels);
    }
  });
});

test('each piece has one Deployment of two nodes, and a budget that lets one of them go', () => {
  const names = roles.map(({ name }) => name).sort();
  expect(deployments.map(componentOf).sort()).toEqual(names);
  for (const deployment of deployments) {
    const role = componentOf(deployment);
    expect([deployment.metadata.name, containerOf(deployment).args]).toEqual([role, [role]]);
    expect(deployment.spec.replicas).toBeGreaterThanOrEqual(2);
    const budget = ofKind('PodDisruptionBudget').find((each) => componentOf(each) === role);
    expect(budget?.spec).toEqual({ maxUnavailable: 1, selector: deployment.spec.selector });
  }
  expect(ofKind('Job').map((job) => containerOf(job).args)).toEqual([['--migrate']]);
});

test('Deployments differ by their piece and its secrets, and gateways by the port of clients', () => {
  const withoutRole = deployments.map((deployment) => {
    const shared = structuredClone(deployment);
    containerOf(shared).env = [];
    return JSON.stringify(shared)
      .replaceAll(`"${componentOf(deployment)}"`, '"piece"')
      .replace('{"name":"http","containerPort":8080},', '');
  });
  expect(new Set(withoutRole).size).toBe(1);
});

test('probes ask /healthz and /readyz on METRICS_PORT, and pods have 30 s to end', () => {
  const { data } = ofKind('ConfigMap')[0];
  for (const deployment of deployments) {
    const { ports, startupProbe, livenessProbe, readinessProbe } = containerOf(deployment);
    expect(ports).toContainEqual({ name: 'metrics', containerPort: Number(data.METRICS_PORT) });
    expect(startupProbe.httpGet).toEqual({ path: '/healthz', port: 'metrics' });
    expect(livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'metrics' });
    expect(readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'metrics' });
    expect(deployment.spec.template.spec.terminationGracePeriodSeconds).toBe(30);
  }
  const gateway = deployments.find((each) => componentOf(each) === 'gateway');
  expect(containerOf(gateway).ports).toContainEqual({
    name: 'http',
    containerPort: Number(data.PORT),
  });
});

describe('settings', () => {
  const rows = new Map<string, Row>(
    Object.entries(settingsTable).map(([field, row]) => [variableOf(field), row]),
  );
  /** What may hold a secret without being marked: addresses are given without one. */
  const addresses = ['NATS_URL', 'REDIS_URL'];

  test.each([
    ['base', base],
    ['example', example],
  ])('of the %s are known, and no secret is among them', (_name, manifests) => {
    const { data } = manifests.find(({ kind }) => kind === 'ConfigMap');
    for (const [variable, value] of Object.entries(data)) {
      const row = rows.get(variable);
      expect([variable, row !== undefined]).toEqual([variable, true]);
      if (row?.secret) expect(addresses).toContain(variable);
      expect(String(value)).not.toMatch(/:\/\/[^/]*@/);
    }
  });

  test('that are secret come from the Secret under their own names', () => {
    for (const workload of workloads) {
      const { env, envFrom } = containerOf(workload);
      expect(envFrom).toEqual([{ configMapRef: { name: 'strata' } }]);
      const [node, ...secrets] = env;
      expect(node.name).toBe('NODE_ID');
      for (const { name, valueFrom } of secrets) {
        expect([name, rows.get(name)?.secret]).toEqual([name, true]);
        expect(valueFrom.secretKeyRef).toMatchObject({ name: 'strata', key: name });
      }
    }
    expect(base.some(({ kind }) => kind === 'Secret')).toBe(false);
  });

  test.each(roles)('are enough for $name to start', ({ name }) => {
    const { data } = example.find(({ kind }) => kind === 'ConfigMap');
    const { env } = containerOf(deployments.find((each) => componentOf(each) === name));
    const required = env.filter(
      ({ valueFrom }: Manifest) => valueFrom.secretKeyRef && !valueFrom.secretKeyRef.optional,
    );
    const given = Object.fromEntries(
      required.map((each: { name: string }) => [each.name, 'a secret of at least 32 bytes, say']),
    );
    const address = { DATABASE_URL: 'postgres://strata:p@postgres:5432/strata' };
    const environment = {
      ...data,
      ...given,
      ...('DATABASE_URL' in given && address),
      NODE_ID: `${name}-7d4b9c-x2x1z`,
      NATS_PASSWORD: 'p',
    };
    const role = roles.filter((each) => each.name === name);
    expect(() => loadSettings(environment, { roles: role })).not.toThrow();
  });

  test('docs/operations/deploy.md names every key of the Secret', () => {
    const page = readFileSync(join(root, 'docs/operations/deploy.md'), 'utf8');
    const keys = workloads.flatMap((workload) =>
      containerOf(workload).env.flatMap(
        ({ valueFrom }: Manifest) => valueFrom.secretKeyRef?.key ?? [],
      ),
    );
    expect(keys.length).toBeGreaterThan(5);
    for (const key of keys) expect(page).toContain(`\`${key}\``);
  });
});

describe('network policies', () => {
  /** The components that may open a connection to this port, or '*'. */
  const sendersTo = (port: number): string[] =>
    ofKind('NetworkPolicy')
      .filter(({ spec }) =>
        spec.egress?.some(({ ports }: Manifest) =>
          ports.some((each: Manifest) => each.port === port),
        ),
      )
      .flatMap(({ spec }) => spec.podSelector.matchExpressions?.[0].values ?? ['*'])
      .sort();
  const thatNeed = (setting: string): string[] =>
    roles.filter(({ needs }) => needs.some((each) => each === setting)).map(({ name }) => name);

  test('let nothing through but what others say', () => {
    const [closed] = ofKind('NetworkPolicy');
    expect(closed.spec).toEqual({
      podSelector: { matchLabels: { 'app.kubernetes.io/name': 'strata' } },
      policyTypes: ['Ingress', 'Egress'],
    });
  });

  test('let pieces reach what they need, and no other piece', () => {
    expect(sendersTo(4222)).toEqual(['*']);
    expect(sendersTo(5432)).toEqual([...thatNeed('database_url'), 'migrate'].sort());
    expect(sendersTo(6379)).toEqual(thatNeed('redis_url').sort());
    expect(sendersTo(443)).toEqual(['audit', 'auth', 'notifier']);
  });

  test('let clients reach gateways alone', () => {
    const open = ofKind('NetworkPolicy').filter(({ spec }) =>
      spec.ingress?.some(({ ports }: Manifest) => ports[0].port === 'http'),
    );
    expect(open.map(({ spec }) => spec.podSelector.matchLabels)).toEqual([
      { 'app.kubernetes.io/name': 'strata', 'app.kubernetes.io/component': 'gateway' },
    ]);
  });
});

describe('what is put together here', () => {
  test.each(['base', 'example'])(
    'is what kustomize makes of the %s, where there is one',
    (name) => {
      const byName = (manifests: readonly Manifest[]): Record<string, Manifest> =>
        Object.fromEntries(manifests.map((each) => [`${each.kind} ${each.metadata.name}`, each]));
      const ours = byName(build(name));
      expect(Object.keys(ours).length).toBeGreaterThan(20);
      expect(byName(builtByKustomize(name) ?? build(name))).toEqual(ours);
    },
  );

  test.each<[string, object, string]>([
    ['a field that it does not know', { commonLabels: { team: 'a' } }, 'commonLabels'],
    ['an image by its digest', { images: [{ name: 'strata', digest: 'sha256:0' }] }, 'digest'],
    ['replicas of what is not there', { replicas: [{ name: 'gone', count: 3 }] }, 'gone'],
  ])('is refused for %s', (_what, said, named) => {
    const kustomization = { ...kustomizationOf('example'), ...said };
    expect(() => build('example', () => kustomization)).toThrow(named);
  });
});

test('the example has its namespace, image and replicas everywhere', () => {
  expect(example.every(({ metadata }) => metadata.namespace === 'strata')).toBe(true);
  const images = example.flatMap(({ spec }) =>
    (spec?.template?.spec.containers ?? []).map(({ image }: Manifest) => image),
  );
  expect(new Set(images)).toEqual(new Set(['registry.example.com/strata:0.1.0']));
  const gateway = example.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'gateway',
  );
  expect(gateway.spec.replicas).toBe(3);
});
