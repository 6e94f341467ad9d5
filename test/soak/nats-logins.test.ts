/**
 * How NATS knows the nodes beside a user and a password: by nkeys, by credentials of an account, by
 * certificates. With each a cluster starts, and whoever has none is refused.
 */
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { connect, nkeys, type ConnectionOptions } from 'nats';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { startNats } from '../support/servers.ts';
import { Client, startStrata } from '../support/strata.ts';

type KeyPair = ReturnType<typeof nkeys.createUser>;

let folder: string;
let cluster: Cluster | undefined;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'strata-nats-logins-'));
});
afterEach(async () => {
  await cluster?.stop();
  cluster = undefined;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

/** Starts a cluster whose nodes connect so, and expects NATS to refuse the outsiders. */
async function startsAndRefuses(
  config: string,
  environment: Record<string, string>,
  outsiders: readonly ConnectionOptions[],
): Promise<void> {
  const natsConfig = write('nats.conf', config);
  cluster = await startCluster({ gateways: 1, once: true, natsConfig, environment });
  const { status } = await new Client(cluster.gateways[0]!.url, cluster.tenant.admin.token).get(
    `/tenants/${cluster.tenant.id}/config/risk`,
  );
  expect(status).toBe(200);
  for (const outsider of outsiders) {
    const connecting = connect({ servers: cluster.bus.url, reconnect: false, ...outsider });
    await expect(connecting).rejects.toThrow();
  }
}

const seedOf = (pair: KeyPair): string => Buffer.from(pair.getSeed()).toString();

test('by the seed of an nkey', async () => {
  const user = nkeys.createUser();
  await startsAndRefuses(
    `authorization { users = [ { nkey: ${user.getPublicKey()} } ] }`,
    { NATS_NKEY_SEED: seedOf(user) },
    [{}, { user: 'strata', pass: 'strata' }],
  );
});

const encoded = (value: unknown): string =>
  Buffer.from(JSON.stringify(value)).toString('base64url');

/** A JWT of NATS: https://docs.nats.io/running-a-nats-service/nats_admin/security/jwt */
function jwt(by: KeyPair, sub: string, nats: object): string {
  const claims = { jti: sub, iat: 1, iss: by.getPublicKey(), name: 'strata', sub, nats };
  const signed = `${encoded({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encoded(claims)}`;
  const signature = Buffer.from(by.sign(Buffer.from(signed))).toString('base64url');
  return `${signed}.${signature}`;
}

test('by credentials of an account', async () => {
  const [operator, account, user] = [
    nkeys.createOperator(),
    nkeys.createAccount(),
    nkeys.createUser(),
  ];
  const none = { subs: -1, data: -1, payload: -1 };
  const limits = { ...none, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
  const version = 2;
  const operatorJwt = jwt(operator, operator.getPublicKey(), { type: 'operator', version });
  const accountJwt = jwt(operator, account.getPublicKey(), { type: 'account', version, limits });
  const userJwt = jwt(account, user.getPublicKey(), { type: 'user', version, ...none });
  const creds = write(
    'strata.creds',
    [
      '-----BEGIN NATS USER JWT-----',
      userJwt,
      '------END NATS USER JWT------',
      '',
      '-----BEGIN USER NKEY SEED-----',
      seedOf(user),
      '------END USER NKEY SEED------',
      '',
    ].join('\n'),
  );
  await startsAndRefuses(
    `operator: ${operatorJwt}\nresolver: MEMORY\nresolver_preload: { ${account.getPublicKey()}: ${accountJwt} }`,
    { NATS_CREDS: creds },
    [{}, { user: 'strata', pass: 'strata' }],
  );
});

test('by a certificate of the authority that NATS trusts, over several servers', async () => {
  const openssl = (...words: string[]): void => {
    execFileSync('openssl', words, { cwd: folder, stdio: 'ignore' });
  };
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  openssl('req', '-x509', ...key, '-subj', '/CN=authority', '-keyout', 'ca.key', '-out', 'ca.pem');
  for (const name of ['server', 'node']) {
    openssl('req', ...key, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
    write('names', 'subjectAltName=DNS:localhost,IP:127.0.0.1');
    const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names'];
    openssl('x509', '-req', '-in', `${name}.csr`, ...by, '-days', '2', '-out', `${name}.pem`);
  }
  const file = (name: string): string => join(folder, name);
  const tls = `tls { cert_file: "${file('server.pem')}", key_file: "${file('server.key')}", ca_file: "${file('ca.pem')}", verify: true }`;
  await startsAndRefuses(
    tls,
    {
      NATS_TLS_CA: file('ca.pem'),
      NATS_TLS_CERT: file('node.pem'),
      NATS_TLS_KEY: file('node.key'),
    },
    [{}, { tls: { caFile: file('ca.pem') } }],
  );
});

test('of several servers another one is taken', async () => {
  const nats = await startNats();
  try {
    cluster = await startCluster({
      gateways: 1,
      once: true,
      environment: { NATS_URL: `nats://127.0.0.1:1,${nats.url}` },
    });
    expect((await cluster.platform.get('/tenants')).status).toBe(200);
  } finally {
    await cluster?.stop();
    cluster = undefined;
    await nats.stop('SIGKILL');
  }
});

test.each([
  ['NATS_CREDS', {}],
  ['NATS_TLS_CA', {}],
  ['NATS_TLS_KEY', { NATS_TLS_CERT: import.meta.filename }],
])('a file of %s that is not there keeps a node from starting', async (variable, beside) => {
  const start = startStrata(
    {
      NATS_URL: 'nats://127.0.0.1:1',
      ...beside,
      [variable]: '/nowhere/strata.pem',
      DATABASE_URL: process.env.TEST_DATABASE_URL!,
    },
    ['config-resolver'],
  );
  const said = `${variable} names /nowhere/strata.pem, which cannot be read (ENOENT)`;
  await expect(start).rejects.toThrow(said);
});
